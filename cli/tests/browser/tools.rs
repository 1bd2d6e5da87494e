//! Chromium, Node, and the npm packages of the scripts in this folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use locker_tests::web::Web;
use serde_json::json;

/// What the scripts need beside the console.
pub(crate) struct Tools {
    node: PathBuf,
    chromium: PathBuf,
    /// The npm packages and the pictures.
    home: PathBuf,
}

impl Tools {
    /// The tools, or the name of the first that is missing.
    fn find() -> Result<Self, String> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/browser");
        let on_path = |name: &str| {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&folders).map(|it| it.join(name)).find(|it| it.is_file());
            found.ok_or_else(|| format!("there is no {name}"))
        };
        // The same engine without the windows of a desktop, which take almost half of the time.
        let chromium = on_path("chromium-headless-shell").or_else(|_| on_path("chromium"))?;
        let node = on_path("node")?;
        for package in ["playwright-core", "axe-core"] {
            if !home.join("node_modules").join(package).is_dir() {
                return Err(format!("{package} is not in target/browser: run tests/chromium"));
            }
        }
        Ok(Self { node, chromium, home })
    }

    /// `None`, and one line for all tests: they are skipped.
    pub(crate) fn found() -> Option<Self> {
        static SAID: Once = Once::new();
        let asked = std::env::var("BROWSER_TESTS").unwrap_or_default();
        let found = match asked.as_str() {
            "off" => Err("BROWSER_TESTS=off".to_owned()),
            _ => Self::find(),
        };
        match found {
            Ok(tools) => Some(tools),
            Err(missing) if asked == "required" => panic!("the browser tests cannot run: {missing}"),
            // Written past the capture of test output.
            Err(missing) => {
                SAID.call_once(|| {
                    writeln!(std::io::stderr(), "skipped the browser tests: {missing}").expect("written");
                });
                None
            }
        }
    }

    /// A script of this folder, on consoles by their names. `call`: the command that it may run.
    /// `directory` has the profile of Chromium, and is deleted by the test.
    pub(crate) fn script(
        &self,
        script: &str,
        call: &Command,
        consoles: &[(&str, Web)],
        directory: &Path,
    ) -> Command {
        let words = [call.get_program()].into_iter().chain(call.get_args());
        let words: Vec<_> = words.map(|it| it.to_str().expect("text")).collect();
        let mut node = Command::new(&self.node);
        for (name, value) in call.get_envs() {
            match value {
                Some(value) => node.env(name, value),
                None => node.env_remove(name),
            };
        }
        node.current_dir(directory)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script))
            .args(consoles.iter().map(|(name, web)| format!("{name}=http://{}{}", web.host, web.first)))
            .env("TMPDIR", directory)
            .env("BROWSER_HOME", &self.home)
            .env("BROWSER_CHROMIUM", &self.chromium)
            .env("BROWSER_ONLY", std::env::var("BROWSER_ONLY").unwrap_or_default())
            .env("BROWSER_COMMAND", json!(words).to_string());
        node
    }
}
