// Publishes and subscribes over plain HTTP with C++17 and POSIX sockets alone.
//
//   g++ -std=c++17 -O2 -o fastpath fastpath.cpp
//   ./fastpath subscribe SUBJECT...         prints every event as a line: its name and its JSON
//   ./fastpath publish SUBJECT CONTENT      prints the server's answer
//
// SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
// a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).
// There is no TLS here: for https put a library's connection in the place of Connection.

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using std::string;

/// The next attempt may succeed.
struct Passing : std::runtime_error {
    using runtime_error::runtime_error;
};

/// To ask again would not help.
struct Refused : std::runtime_error {
    using runtime_error::runtime_error;
};

/// What the program is for: here it prints.
void handle(const string& name, const string& data) {
    std::cout << name << ' ' << data << std::endl;
    // message: {"subject", "content", "fields", "epoch", "seq", ...}, for the JSON library of your choice
    // resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
    // denied, revoked: no right to the subject at present; it begins by itself when the right comes.
}

/// Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once.
class Backoff {
  public:
    void reset() { failures_ = 0; }

    void wait(const string& reason) {
        std::uniform_real_distribution<double> chance(0.5, 1.0);
        const double seconds = std::min(30.0, std::pow(2.0, failures_)) * chance(random_);
        failures_ += 1;
        std::fprintf(stderr, "%s; again in %.1f s\n", reason.c_str(), seconds);
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }

  private:
    int failures_ = 0;
    std::random_device random_;
};

/// A connection, read by lines and by counted bytes; ended with the object.
class Connection {
  public:
    Connection(const string& host, const string& port, double silence) {
        addrinfo wanted{}, *found = nullptr;
        wanted.ai_socktype = SOCK_STREAM;
        if (const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0)
            throw Passing(host + ": " + gai_strerror(error));
        timeval most{};
        most.tv_sec = static_cast<time_t>(silence);
        most.tv_usec = static_cast<suseconds_t>((silence - std::floor(silence)) * 1e6);
        string reason = "no address";
        for (const addrinfo* each = found; each != nullptr && socket_ < 0; each = each->ai_next) {
            socket_ = socket(each->ai_family, each->ai_socktype, each->ai_protocol);
            // The time for sending bounds connect(), too.
            setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
            setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
            if (connect(socket_, each->ai_addr, each->ai_addrlen) == 0) break;
            reason = std::strerror(errno);
            close(socket_);
            socket_ = -1;
        }
        freeaddrinfo(found);
        if (socket_ < 0) throw Passing(host + ":" + port + ": " + reason);
    }

    ~Connection() { close(socket_); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void write(const string& bytes) {
        for (size_t done = 0; done < bytes.size();) {
            const ssize_t count = send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
            if (count < 0) throw Passing(std::strerror(errno));
            done += static_cast<size_t>(count);
        }
    }

    /// A line without its end; Passing if the connection ends before.
    string line() {
        size_t end;
        while ((end = buffer_.find('\n')) == string::npos)
            if (!more()) throw Passing("the connection has ended");
        string text = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        if (!text.empty() && text.back() == '\r') text.pop_back();
        return text;
    }

    /// At least one byte, and so many at most; empty at the end of the connection.
    string some(size_t most) {
        if (buffer_.empty()) more();
        string bytes = buffer_.substr(0, most);
        buffer_.erase(0, most);
        return bytes;
    }

  private:
    bool more() {
        char bytes[16384];
        const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
        if (count < 0) throw Passing(errno == EAGAIN ? "nothing came in time" : std::strerror(errno));
        buffer_.append(bytes, static_cast<size_t>(count));
        return count > 0;
    }

    int socket_ = -1;
    string buffer_;
};

/// The body of an answer: in chunks, or all that comes until the connection ends.
class Body {
  public:
    Body(Connection& connection, bool is_chunked) : connection_(connection), is_chunked_(is_chunked) {}

    /// The next line without its end; false at the end of the body.
    bool line(string& text) {
        size_t end;
        while ((end = buffer_.find('\n')) == string::npos)
            if (!more()) return false;
        text = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
    }

    string all() {
        while (more()) {}
        return buffer_;
    }

  private:
    bool more() {
        if (is_chunked_ && left_ == 0) {
            if (!is_first_) connection_.line();  // the end of the chunk before
            is_first_ = false;
            left_ = std::strtoul(connection_.line().c_str(), nullptr, 16);
            if (left_ == 0) return false;  // the last one
        }
        const string bytes = connection_.some(is_chunked_ ? left_ : 65536);
        if (is_chunked_ && bytes.empty()) throw Passing("the connection ended within a chunk");
        if (is_chunked_) left_ -= bytes.size();
        buffer_ += bytes;
        return !bytes.empty();
    }

    Connection& connection_;
    bool is_chunked_;
    bool is_first_ = true;
    size_t left_ = 0;  // bytes of the chunk that is being read
    string buffer_;
};

/// A text as it stands in an address.
string percent(const string& text) {
    string out;
    for (const unsigned char each : text) {
        char hex[4];
        std::snprintf(hex, sizeof hex, "%%%02X", each);
        const bool is_plain = std::isalnum(each) != 0 || std::strchr("/-._~", each) != nullptr;
        out += is_plain ? string(1, static_cast<char>(each)) : hex;
    }
    return out;
}

/// A text as JSON writes it.
string quoted(const string& text) {
    string json = "\"";
    for (const char each : text) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(each)));
        if (each == '"' || each == '\\') (json += '\\') += each;
        else if (static_cast<unsigned char>(each) < ' ') json += escaped;
        else json += each;
    }
    return json + '"';
}

class Client {
  public:
    Client(string host, string port, string token, double silence)
        : host_(std::move(host)), port_(std::move(port)), token_(std::move(token)), silence_(silence) {}

    void subscribe(const std::vector<string>& subjects) {
        string query;
        for (const string& each : subjects) query += (query.empty() ? "subject=" : "&subject=") + percent(each);
        string place;  // the id of the last event that was handled
        Backoff backoff;
        while (true) {
            try {
                follow(query, place, backoff);
            } catch (const Passing& error) {
                backoff.wait(error.what());
            }
        }
    }

    void publish(const string& subject, const string& content) {
        const string body = "{\"subject\": " + quoted(subject) + ", \"content\": " + quoted(content) + "}";
        const string head = "POST /api/publish HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: "
            + std::to_string(body.size()) + "\r\nIdempotency-Key: " + key() + "\r\n";
        Backoff backoff;
        while (true) {  // The same key each time: whatever became of an answer, the message is stored once.
            try {
                Connection connection(host_, port_, silence_);
                const string text = ask(connection, head, body).all();
                if (text.empty() || text.back() != '}') throw Passing("the answer has no end");
                std::cout << text << std::endl;
                const string begin = "{\"results\":[{\"status\":\"";
                const bool is_ours = text.compare(0, begin.size(), begin) == 0;
                const size_t end = text.find('"', begin.size());
                const string status = is_ours ? text.substr(begin.size(), end - begin.size()) : "";
                if (status == "ok" || status == "stale") return;  // stale: an earlier attempt has stored it, long ago
                if (status != "unavailable" && status != "not_ready") throw Refused(text);
                backoff.wait(status);
            } catch (const Passing& error) {
                backoff.wait(error.what());
            }
        }
    }

  private:
    /// Ask, and return the body of an answer of 200.
    Body ask(Connection& connection, const string& head, const string& content) const {
        string request = head + "Host: " + host_ + ":" + port_ + "\r\nConnection: close\r\n";
        if (!token_.empty()) request += "Authorization: Bearer " + token_ + "\r\n";
        connection.write(request + "\r\n" + content);
        const string first = connection.line();
        const int status = first.compare(0, 9, "HTTP/1.1 ") == 0 ? std::atoi(first.c_str() + 9) : 0;
        bool is_chunked = false;
        for (string line = connection.line(); !line.empty(); line = connection.line()) {
            for (char& each : line) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
            if (line.compare(0, 18, "transfer-encoding:") == 0) is_chunked = line.find("chunked") != string::npos;
        }
        Body body(connection, is_chunked);
        if (status == 200) return body;
        const string reason = std::to_string(status) + " " + body.all();
        if (status >= 500 || status == 408 || status == 429) throw Passing(reason);
        throw Refused(reason);
    }

    /// Reads one stream to its end: https://html.spec.whatwg.org/multipage/server-sent-events.html
    void follow(const string& query, string& place, Backoff& backoff) const {
        Connection connection(host_, port_, silence_);
        string head = "GET /events?" + query + " HTTP/1.1\r\nAccept: text/event-stream\r\n";
        if (!place.empty()) head += "Last-Event-ID: " + place + "\r\n";
        Body body = ask(connection, head, "");
        string line, name = "message", data, id;
        while (body.line(line)) {
            if (line.compare(0, 7, "event: ") == 0) name = line.substr(7);
            if (line.compare(0, 6, "data: ") == 0) data += line.substr(6);
            if (line.compare(0, 4, "id: ") == 0) id = line.substr(4);
            if (!line.empty()) continue;
            if (name == "connected") backoff.reset();
            if (!data.empty()) {
                handle(name, data);
                if (!id.empty()) place = id;
            }
            if (name == "close") {
                const size_t digits = data.find_first_of("0123456789");  // {"code": 4000, "reason": ...}
                if (digits != string::npos && std::atoi(data.c_str() + digits) >= 4500) throw Refused(data);
                throw Passing("closed: " + data);
            }
            name = "message";
            data = id = "";
        }
        throw Passing("the stream has ended");
    }

    static string key() {
        std::random_device random;
        string text;
        for (int each = 0; each < 4; ++each) {
            char hex[9];
            std::snprintf(hex, sizeof hex, "%08x", random());
            text += hex;
        }
        return text;
    }

    string host_, port_, token_;
    double silence_;
};

string given(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : otherwise;
}

int main(int count, char** words) {
    const std::vector<string> arguments(words + 1, words + count);
    try {
        const string site = given("SITE", "http://127.0.0.1:8800");
        if (site.compare(0, 7, "http://") != 0) throw Refused("SITE is http://HOST[:PORT], and not " + site);
        const string address = site.substr(7, site.find('/', 7) - 7);
        const size_t colon = address.rfind(':');
        const string port = colon == string::npos ? "80" : address.substr(colon + 1);
        Client client(address.substr(0, colon), port, given("TOKEN", ""), std::stod(given("SILENCE", "60")));
        if (arguments.size() > 1 && arguments[0] == "subscribe")
            client.subscribe({arguments.begin() + 1, arguments.end()});
        else if (arguments.size() == 3 && arguments[0] == "publish")
            client.publish(arguments[1], arguments[2]);
        else
            throw Refused("usage: fastpath subscribe SUBJECT... | publish SUBJECT CONTENT");
    } catch (const Refused& error) {
        std::cerr << "refused: " << error.what() << std::endl;
        return 1;
    }
}
