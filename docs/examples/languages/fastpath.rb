# Publishes and subscribes over plain HTTP with Ruby's standard library alone.
#
#   ruby fastpath.rb subscribe SUBJECT...         prints every event as a line: its name and its JSON
#   ruby fastpath.rb publish SUBJECT CONTENT      prints the server's answer
#
# SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
# a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).

require "json"
require "net/http"
require "openssl"
require "securerandom"
require "uri"

# The next attempt may succeed.
class Passing < StandardError; end

# To ask again would not help.
class Refused < StandardError; end

LOST = [Passing, SystemCallError, IOError, SocketError, Timeout::Error, Net::HTTPBadResponse, JSON::ParserError,
        OpenSSL::SSL::SSLError].freeze

# What the program is for: here it prints.
def handle(name, data)
  puts "#{name} #{data}"
  # message: JSON.parse(data), with subject, content, fields, epoch and seq
  # resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
  # denied, revoked: no right to the subject at present; it begins by itself when the right comes.
end

# Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once.
class Backoff
  def initialize
    reset
  end

  def reset
    @failures = 0
  end

  def wait(reason)
    seconds = [30, 2**@failures].min * rand(0.5..1.0)
    @failures += 1
    warn format("%s; again in %.1f s", reason, seconds)
    sleep seconds
  end
end

# A client of one site.
class Client
  def initialize(site, token, silence)
    @site = URI(site)
    @token = token
    @silence = silence
    @backoff = Backoff.new
  end

  def subscribe(subjects)
    query = URI.encode_www_form(subjects.map { |subject| ["subject", subject] })
    @place = "" # the id of the last event that was handled
    again { follow("/events?#{query}") }
  end

  def publish(subject, content)
    request = Net::HTTP::Post.new("/api/publish", "Content-Type" => "application/json")
    request["Idempotency-Key"] = SecureRandom.uuid
    request.body = { subject: subject, content: content }.to_json
    again do # The same key each time: whatever became of an answer, the message is stored once.
      text = +""
      ask(request) { |piece| text << piece }
      status = JSON.parse(text)["results"][0]["status"]
      puts text
      return if %w[ok stale].include?(status) # stale: an earlier attempt has stored it, long ago
      raise Refused, text unless %w[unavailable not_ready].include?(status)

      raise Passing, status
    end
  end

  private

  # Until the block returns from its method, or asking again would not help.
  def again
    loop do
      yield
    rescue *LOST => error
      @backoff.wait(error.message)
    end
  end

  # Reads one stream to its end: https://html.spec.whatwg.org/multipage/server-sent-events.html
  def follow(path)
    request = Net::HTTP::Get.new(path, "Accept" => "text/event-stream", "Accept-Encoding" => "identity")
    request["Last-Event-ID"] = @place unless @place.empty?
    rest = +""
    event = {}
    ask(request) do |piece|
      rest << piece
      while (line = rest.slice!(/\A[^\n]*\n/))
        line = line.force_encoding("UTF-8").chomp
        field, value = line.split(": ", 2)
        event[field] = value if value
        next unless line.empty?

        dispatch(event.fetch("event", "message"), event["data"], event["id"])
        event = {}
      end
    end
    raise Passing, "the stream has ended"
  end

  def dispatch(name, data, id)
    return unless data

    @backoff.reset if name == "connected"
    handle(name, data)
    @place = id if id
    return unless name == "close"

    raise JSON.parse(data)["code"] >= 4500 ? Refused : Passing, "closed: #{data}"
  end

  # Yields the pieces of the body of an answer of 200.
  def ask(request, &pieces)
    request["Authorization"] = "Bearer #{@token}" unless @token.empty?
    times = { open_timeout: 10, read_timeout: @silence, write_timeout: @silence, max_retries: 0 }
    Net::HTTP.start(@site.host, @site.port, use_ssl: @site.scheme == "https", **times) do |http|
      http.request(request) do |answer|
        return answer.read_body(&pieces) if answer.code == "200"

        reason = "#{answer.code} #{answer.read_body}"
        raise answer.code.to_i >= 500 || %w[408 429].include?(answer.code) ? Passing : Refused, reason
      end
    end
  end
end

$stdout.sync = true
client = Client.new(ENV.fetch("SITE", "http://127.0.0.1:8800"), ENV.fetch("TOKEN", ""), ENV.fetch("SILENCE", "60").to_f)
command, *arguments = ARGV
begin
  if command == "subscribe" && arguments.any? then client.subscribe(arguments)
  elsif command == "publish" && arguments.size == 2 then client.publish(*arguments)
  else raise Refused, "usage: fastpath.rb subscribe SUBJECT... | publish SUBJECT CONTENT"
  end
rescue Refused => error
  warn "refused: #{error.message}"
  exit 1
end
