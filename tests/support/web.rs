//! The web console as a process, and a plain browser of it.

// The processes have the real time.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::command::until;

/// A console that runs, and a browser of it.
#[derive(Debug)]
pub struct Web {
    child: Option<Child>,
    log: PathBuf,
    /// The authority, such as `c4f2a.localhost:40123`.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path of the first address.
    pub first: String,
    /// The name and the value of its cookie.
    pub cookie: String,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Reply {
    /// A header, or an empty text.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(named, _)| named == name);
        found.map_or("", |(_, value)| value)
    }
}

/// A form of a page: where it is sent, and its fields with their values.
#[derive(Debug, Clone)]
pub struct Form {
    action: String,
    fields: Vec<(String, String)>,
}

impl Form {
    /// Sets a field, which replaces its value.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(named, _)| named != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Reply {
    /// The form of the page that is sent to this path, as a browser fills it in: with hidden fields,
    /// chosen buttons and default values.
    #[must_use]
    #[track_caller]
    pub fn form(&self, action: &str) -> Form {
        let mut all = self.body.split("<form").skip(1).filter_map(|rest| rest.split("</form>").next());
        let is_it = |form: &&str| {
            form.split_once(" action=\"")
                .is_some_and(|(_, path)| path.split(['"', '?']).next() == Some(action))
        };
        let form = all.find(is_it);
        let form = form.unwrap_or_else(|| panic!("no form for {action} in {}", self.body));
        let inputs = form.split("<input").skip(1).filter_map(|rest| rest.split('>').next());
        let attribute = |tag: &str, name: &str| {
            let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
            Some(unescaped(value))
        };
        let is_sent = |tag: &&str| {
            let is_choice = tag.contains("type=\"radio\"") || tag.contains("type=\"checkbox\"");
            !is_choice || tag.contains(" checked")
        };
        let field = |tag| Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()));
        let action = attribute(form, "action").expect("an address");
        Form { action, fields: inputs.filter(is_sent).filter_map(field).collect() }
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

impl Web {
    /// Starts a console, and does not enter it. `log` gets its standard error.
    #[must_use]
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let err = std::fs::File::create(&log).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(err).spawn().expect("started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("open ").unwrap_or_else(|| panic!("no address: {line}"));
        let mut web = Self::at(address);
        (web.child, web.log) = (Some(child), log);
        web
    }

    /// A browser of a console that runs, by its first address.
    #[must_use]
    pub fn at(address: &str) -> Self {
        let (host, first) = parts(address);
        let port = host.rsplit(':').next().expect("a port").parse().expect("a number");
        Self { child: None, log: PathBuf::new(), host, port, first, cookie: String::new() }
    }

    /// The same, after its first address was used.
    #[must_use]
    pub fn entered(mut self) -> Self {
        self.enter(&self.first.clone());
        self
    }

    /// Uses a first address.
    pub fn enter(&mut self, path: &str) {
        let reply = self.ask("GET", path, &[("host", &self.host.clone())], "");
        assert_eq!(reply.status, 303, "{reply:?}");
        self.cookie = reply.header("set-cookie").split(';').next().expect("a cookie").to_owned();
    }

    /// A request with these headers and no other.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connected");
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !body.is_empty() {
            text += &format!(
                "content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n",
                body.len()
            );
        }
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        write!(stream, "{text}\r\n{body}").expect("sent");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("a reply");
        let reply = String::from_utf8(reply).expect("text");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Reply {
            status: status.parse().expect("a number"),
            headers: lines.filter_map(header).collect(),
            body: body.to_owned(),
        }
    }

    /// A request of the browser.
    #[must_use]
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[("host", &self.host), ("cookie", &self.cookie)], "")
    }

    /// Sends a form of this console, as the browser does.
    #[must_use]
    pub fn send(&self, form: &Form) -> Reply {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(&form.fields).finish();
        let origin = format!("http://{}", self.host);
        let headers = [("host", self.host.as_str()), ("cookie", &self.cookie), ("origin", &origin)];
        self.ask("POST", &form.action, &headers, &body)
    }

    /// What the terminal shows.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// The newest address that the terminal shows.
    #[must_use]
    pub fn newest(&self) -> String {
        until(|| self.log().contains("a new address"));
        let log = self.log();
        parts(log.lines().rev().find_map(|line| line.split("minutes: ").nth(1)).expect("an address")).1
    }

    /// Follows every link from these pages on, and returns each page with its path.
    #[must_use]
    pub fn walk(&self, from: &[&str]) -> Vec<(String, Reply)> {
        let (mut found, mut pages): (Vec<_>, _) =
            (from.iter().map(|path| (*path).to_owned()).collect(), Vec::new());
        let mut seen = BTreeSet::new();
        while let Some(path) = found.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let page = self.get(&path);
            let links = page.body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
            let links = links.filter(|link| link.starts_with('/') && !link.ends_with(".css"));
            found.extend(links.map(|link| link.replace("&amp;", "&")));
            pages.push((path, page));
        }
        pages
    }
}

/// A connection that a browser keeps open. `None`: the console has closed it.
#[derive(Debug)]
pub struct Kept(TcpStream);

impl Web {
    /// The id of its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.as_ref().expect("a process").id()
    }

    /// Waits until the process has ended, and returns its exit code.
    #[must_use]
    pub fn ended(&mut self) -> i32 {
        let child = self.child.as_mut().expect("a process");
        until(|| child.try_wait().expect("a state").is_some());
        child.wait().expect("a state").code().unwrap_or(-1)
    }

    /// Opens a connection that is kept open.
    #[must_use]
    pub fn connect(&self) -> Kept {
        Kept(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connected"))
    }
}

impl Kept {
    /// The status of a page.
    #[must_use]
    pub fn get(&mut self, web: &Web, path: &str) -> Option<u16> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n", web.host, web.cookie))
    }

    /// The status of the page that answers a form.
    #[must_use]
    pub fn send(&mut self, web: &Web, form: &Form) -> Option<u16> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(&form.fields).finish();
        let (Web { host, cookie, .. }, action, length) = (web, &form.action, body.len());
        self.ask(&format!(
            "POST {action} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\norigin: http://{host}\r\n\
             content-length: {length}\r\n\r\n{body}"
        ))
    }

    fn ask(&mut self, request: &str) -> Option<u16> {
        self.0.write_all(request.as_bytes()).ok()?;
        let mut reader = BufReader::new(&self.0);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(status)
    }
}

/// The authority and the path of an address.
fn parts(address: &str) -> (String, String) {
    let rest = address.strip_prefix("http://").expect("an address");
    let (host, path) = rest.split_once('/').expect("a path");
    (host.to_owned(), format!("/{path}"))
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
