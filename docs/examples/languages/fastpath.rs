//! Publishes and subscribes over plain HTTP with Rust's standard library alone.
//!
//!     rustc --edition 2021 -O fastpath.rs
//!     ./fastpath subscribe SUBJECT...         prints every event as a line: its name and its JSON
//!     ./fastpath publish SUBJECT CONTENT      prints the server's answer
//!
//! SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
//! a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).
//! The standard library has no TLS: for https put a crate's stream in the place of TcpStream.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::exit;
use std::thread::sleep;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(10);

enum Failure {
    /// The next attempt may succeed.
    Passing(String),
    /// To ask again would not help.
    Refused(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Passing(match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "nothing came in time".to_string(),
            _ => error.to_string(),
        })
    }
}

struct Client {
    /// host:port
    address: String,
    token: String,
    silence: Duration,
}

/// What the program is for: here it prints.
fn handle(name: &str, data: &str) {
    println!("{name} {data}");
    // message: {"subject", "content", "fields", "epoch", "seq", ...}, for the JSON crate of your choice
    // resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
    // denied, revoked: no right to the subject at present; it begins by itself when the right comes.
}

/// Sixty-four random bits: the keys of every RandomState are the operating system's.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once.
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn wait(&mut self, reason: &str) {
        let chance = 0.5 + random() as f64 / u64::MAX as f64 / 2.0;
        let seconds = f64::from(1 << self.failures.min(5)).min(30.0) * chance;
        self.failures += 1;
        eprintln!("{reason}; again in {seconds:.1} s");
        sleep(Duration::from_secs_f64(seconds));
    }
}

/// The body of an answer: in chunks, or all that comes until the connection ends.
struct Body {
    connection: BufReader<TcpStream>,
    is_chunked: bool,
    /// bytes of the chunk that is being read
    left: usize,
    is_first: bool,
}

impl Body {
    fn begin_chunk(&mut self) -> Result<(), Error> {
        let mut line = String::new();
        if !self.is_first {
            self.connection.read_line(&mut line)?; // the end of the chunk before
            line.clear();
        }
        self.is_first = false;
        self.connection.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or("").trim();
        self.left = usize::from_str_radix(size, 16)
            .map_err(|_| Error::new(ErrorKind::UnexpectedEof, "the answer ended within a chunk"))?;
        Ok(())
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        if !self.is_chunked {
            return self.connection.read(into);
        }
        if self.left == 0 {
            self.begin_chunk()?; // one of no bytes is the last
        }
        let most = into.len().min(self.left);
        let count = self.connection.read(&mut into[..most])?;
        self.left -= count;
        Ok(count)
    }
}

impl Client {
    /// Ask on a connection of its own, and return the body of an answer of 200.
    fn ask(&self, head: &str, content: &str) -> Result<BufReader<Body>, Failure> {
        let mut problem = Error::new(ErrorKind::NotFound, "the host has no address");
        let mut found = None;
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    found = Some(stream);
                    break;
                }
                Err(error) => problem = error,
            }
        }
        let Some(mut stream) = found else {
            return Err(problem.into());
        };
        stream.set_read_timeout(Some(self.silence))?;
        stream.set_write_timeout(Some(self.silence))?;
        let mut request = format!("{head}Host: {}\r\nConnection: close\r\n", self.address);
        if !self.token.is_empty() {
            request += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        stream.write_all(format!("{request}\r\n{content}").as_bytes())?;

        let mut connection = BufReader::new(stream);
        let (mut status, mut is_chunked) = (0, false);
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Err(Failure::Passing("the connection ended without an answer".to_string()));
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(first) = line.strip_prefix("http/1.1 ") {
                status = first.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0);
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
        }
        let mut body = BufReader::new(Body { connection, is_chunked, left: 0, is_first: true });
        if status == 200 {
            return Ok(body);
        }
        let mut text = String::new();
        body.read_to_string(&mut text)?;
        let reason = format!("{status} {text}");
        Err(match status {
            500.. | 408 | 429 => Failure::Passing(reason),
            _ => Failure::Refused(reason),
        })
    }

    /// Read one stream to its end; `place` is the id of the last event that was handled.
    /// How events read: https://html.spec.whatwg.org/multipage/server-sent-events.html
    fn follow(&self, query: &str, place: &mut String, backoff: &mut Backoff) -> Result<(), Failure> {
        let mut head = format!("GET /events?{query} HTTP/1.1\r\nAccept: text/event-stream\r\n");
        if !place.is_empty() {
            head += &format!("Last-Event-ID: {place}\r\n");
        }
        let mut lines = self.ask(&head, "")?;
        let (mut name, mut data, mut id) = ("message".to_string(), String::new(), String::new());
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            if !line.ends_with('\n') {
                return Err(Failure::Passing("the stream has ended".to_string()));
            }
            match line.trim_end_matches(['\r', '\n']).split_once(": ") {
                Some(("event", value)) => name = value.to_string(),
                Some(("data", value)) => data += value,
                Some(("id", value)) => id = value.to_string(),
                _ => {}
            }
            if !line.trim_end().is_empty() {
                continue;
            }
            if name == "connected" {
                backoff.failures = 0;
            }
            if !data.is_empty() {
                handle(&name, &data);
                if !id.is_empty() {
                    *place = id;
                }
            }
            if name == "close" {
                // {"code": 4000, "reason": ...}; codes from 4500 on are for good
                let is_final = first_number(&data) >= 4500;
                return Err(if is_final { Failure::Refused(data) } else { Failure::Passing(data) });
            }
            (name, data, id) = ("message".to_string(), String::new(), String::new());
        }
    }

    fn subscribe(&self, subjects: &[String]) -> Result<(), String> {
        let query: Vec<String> = subjects.iter().map(|each| format!("subject={}", percent(each))).collect();
        let (query, mut place, mut backoff) = (query.join("&"), String::new(), Backoff { failures: 0 });
        loop {
            match self.follow(&query, &mut place, &mut backoff) {
                Ok(()) => {}
                Err(Failure::Passing(reason)) => backoff.wait(&reason),
                Err(Failure::Refused(reason)) => return Err(reason),
            }
        }
    }

    /// Send one publication and return the answer.
    fn post(&self, body: &str, key: &str) -> Result<String, Failure> {
        let head = format!(
            "POST /api/publish HTTP/1.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nIdempotency-Key: {key}\r\n",
            body.len()
        );
        let mut text = String::new();
        self.ask(&head, body)?.read_to_string(&mut text)?;
        if !text.ends_with('}') {
            return Err(Failure::Passing("the answer has no end".to_string()));
        }
        println!("{text}");
        Ok(text)
    }

    /// The same key each time: whatever became of an answer, the message is stored once.
    fn publish(&self, subject: &str, content: &str) -> Result<(), String> {
        let body = format!("{{\"subject\": {}, \"content\": {}}}", quoted(subject), quoted(content));
        let (key, mut backoff) = (format!("{:016x}{:016x}", random(), random()), Backoff { failures: 0 });
        loop {
            match self.post(&body, &key) {
                Ok(text) => match text.split('"').nth(5) {
                    // {"results":[{"status":"ok",...}]}
                    Some("ok" | "stale") => return Ok(()), // stale: an earlier attempt has stored it, long ago
                    Some(status @ ("unavailable" | "not_ready")) => backoff.wait(status),
                    _ => return Err(text),
                },
                Err(Failure::Passing(reason)) => backoff.wait(&reason),
                Err(Failure::Refused(reason)) => return Err(reason),
            }
        }
    }
}

/// The first number of a text, 0 without one.
fn first_number(text: &str) -> u32 {
    let digits = text.trim_start_matches(|each: char| !each.is_ascii_digit());
    let end = digits.find(|each: char| !each.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// A text as JSON writes it.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for each in text.chars() {
        match each {
            '"' | '\\' => json.extend(['\\', each]),
            '\0'..='\x1f' => json += &format!("\\u{:04x}", each as u32),
            _ => json.push(each),
        }
    }
    json + "\""
}

/// A text as it stands in an address.
fn percent(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn main() {
    let site = env::var("SITE").unwrap_or_else(|_| "http://127.0.0.1:8800".to_string());
    let Some(host) = site.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')) else {
        eprintln!("SITE is http://HOST or http://HOST:PORT, and not {site}");
        exit(2);
    };
    let address = if host.contains(':') { host.to_string() } else { format!("{host}:80") };
    let seconds = env::var("SILENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let client =
        Client { address, token: env::var("TOKEN").unwrap_or_default(), silence: Duration::from_secs_f64(seconds) };
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((command, subjects)) if command == "subscribe" && !subjects.is_empty() => client.subscribe(subjects),
        Some((command, [subject, content])) if command == "publish" => client.publish(subject, content),
        _ => Err("usage: fastpath subscribe SUBJECT... | publish SUBJECT CONTENT".to_string()),
    };
    if let Err(reason) = done {
        eprintln!("refused: {reason}");
        exit(1);
    }
}
