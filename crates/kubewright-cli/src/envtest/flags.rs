//! Flags as Go's commands read them: `--name=value`, `--name value`, and `--switch`.

use std::collections::BTreeMap;

/// How a flag is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagKind {
    /// `--name` or `--name=false`.
    Switch,
    /// `--name value` or `--name=value`. A repeated flag replaces the value.
    Value,
    /// As `Value`, but a repeated flag adds values. Commas separate values.
    List,
    /// As `List`, but commas belong to the value.
    Array,
}

/// The flags of a command line.
#[derive(Debug, Default)]
pub struct Flags {
    values: BTreeMap<String, Vec<String>>,
}

impl Flags {
    /// Reads arguments. `kind` tells how a flag is written, or `None` for an unknown one.
    ///
    /// # Errors
    ///
    /// A flag is unknown or has no value, or there are other arguments. The messages are those of
    /// Go's commands.
    pub fn parse(program: &str, arguments: &[String], kind: impl Fn(&str) -> Option<FlagKind>) -> Result<Self, String> {
        let mut flags = Flags::default();
        let mut others = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                others.extend(arguments.by_ref());
                break;
            }
            let (text, is_short) = match (argument.strip_prefix("--"), argument.strip_prefix('-')) {
                (Some(text), _) => (text, false),
                (None, Some(text)) if !text.is_empty() => (text, true),
                _ => {
                    others.push(argument);
                    continue;
                }
            };
            let (name, mut value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let mut name = name.replace('_', "-");
            // Short flags carry their value at once, as in `-v2`.
            if is_short && value.is_none() && name.len() > 1 {
                let end = text.chars().next().map_or(0, char::len_utf8);
                value = Some(&text[end..]);
                name.truncate(end);
            }
            let Some(kind) = kind(&name) else {
                return Err(if is_short {
                    format!("unknown shorthand flag: {:?} in {argument}", name.chars().next().unwrap_or_default())
                } else {
                    format!("unknown flag: --{name}")
                });
            };
            let value = match (kind, value) {
                (_, Some(value)) => value.to_owned(),
                (FlagKind::Switch, None) => "true".to_owned(),
                (_, None) => match arguments.next() {
                    Some(value) => value.clone(),
                    None => return Err(format!("flag needs an argument: --{name}")),
                },
            };
            flags.add(name, kind, value)?;
        }
        if others.iter().any(|other| !other.is_empty()) {
            return Err(format!("{program:?} does not take any arguments, got {others:?}"));
        }
        Ok(flags)
    }

    fn add(&mut self, name: String, kind: FlagKind, value: String) -> Result<(), String> {
        if kind == FlagKind::Switch && switch(&value).is_none() {
            let why = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
            return Err(format!("invalid argument {value:?} for \"--{name}\" flag: {why}"));
        }
        let values = self.values.entry(name).or_default();
        match kind {
            FlagKind::Switch | FlagKind::Value => *values = vec![value],
            FlagKind::Array => values.push(value),
            FlagKind::List if value.is_empty() => {}
            FlagKind::List => values.extend(value.split(',').map(str::to_owned)),
        }
        Ok(())
    }

    /// Whether the flag was given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The names of all flags that were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The value of a flag, unless it is empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.list(name).last().map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All values of a flag.
    pub fn list(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value of a switch.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.value(name).and_then(switch)
    }

    /// The value of a flag, read as another type.
    ///
    /// # Errors
    ///
    /// The value is malformed.
    pub fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let read = |value: &str| {
            parse(value).map_err(|why| format!("invalid argument {value:?} for \"--{name}\" flag: {why}"))
        };
        self.value(name).map(read).transpose()
    }
}

/// The spellings of Go's `strconv.ParseBool`.
fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Option<FlagKind> {
        match name {
            "help" | "allow-privileged" => Some(FlagKind::Switch),
            "secure-port" | "v" => Some(FlagKind::Value),
            "enable-admission-plugins" => Some(FlagKind::List),
            "service-account-issuer" => Some(FlagKind::Array),
            _ => None,
        }
    }

    fn parse(arguments: &[&str]) -> Result<Flags, String> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Flags::parse("kube-apiserver", &arguments, kind)
    }

    #[test]
    fn flags_have_all_forms_of_go() {
        let flags = parse(&[
            "--allow_privileged",
            "--secure-port",
            "1",
            "--secure-port=2",
            "-v=3",
            "--enable-admission-plugins=A,B",
            "--enable-admission-plugins",
            "C",
            "--service-account-issuer=a,b",
            "--service-account-issuer=c",
        ])
        .expect("all are known");
        assert_eq!(flags.switch("allow-privileged"), Some(true));
        assert_eq!((flags.value("secure-port"), flags.value("v")), (Some("2"), Some("3")));
        assert_eq!(flags.list("enable-admission-plugins"), ["A", "B", "C"]);
        assert_eq!(flags.list("service-account-issuer"), ["a,b", "c"]);
        assert_eq!(parse(&["-v4"]).expect("a short flag").value("v"), Some("4"));
        assert_eq!(parse(&["--allow-privileged=false"]).expect("a switch").switch("allow-privileged"), Some(false));
        assert!(!flags.has("help"));
    }

    #[test]
    fn errors_have_the_words_of_go() {
        for (arguments, error) in [
            (&["--nope=1"][..], "unknown flag: --nope"),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["--secure-port"], "flag needs an argument: --secure-port"),
            (&["now"], "\"kube-apiserver\" does not take any arguments, got [\"now\"]"),
            (
                &["--allow-privileged=maybe"],
                "invalid argument \"maybe\" for \"--allow-privileged\" flag: \
                 strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
        ] {
            assert_eq!(parse(arguments).expect_err("it is refused"), error);
        }
        let flags = parse(&["--secure-port=x"]).expect("it is read later");
        let error = flags.parsed("secure-port", |_| Err::<u16, _>("no number".to_owned()));
        assert_eq!(error, Err("invalid argument \"x\" for \"--secure-port\" flag: no number".to_owned()));
    }
}
