//! The commands of simulated containers.

use std::time::Duration;

use super::expansion::arithmetic;
use super::{Input, Interrupt, NOT_FOUND, Output, Shell, Streams, tar, text};
use crate::files::{File, resolve};

/// The known commands.
pub(super) const NAMES: &[&str] = &[
    ":", "[", "[[", "ash", "basename", "bash", "break", "cat", "cd", "clear", "continue", "cp", "date", "dirname",
    "echo", "env", "exec", "exit", "export", "expr", "false", "grep", "head", "hostname", "id", "ls", "mkdir", "mv",
    "printenv", "printf", "pwd", "read", "rm", "rmdir", "seq", "set", "sh", "sleep", "tail", "tar", "tee", "test",
    "touch", "trap", "true", "uname", "unset", "wait", "wc", "which", "whoami",
];

/// The name of a command without the folder of programs.
pub(super) fn plain_name(command: &str) -> &str {
    let folders = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"];
    folders.iter().find_map(|folder| command.strip_prefix(folder)).unwrap_or(command)
}

/// Runs a command. Returns its status.
pub(super) async fn run(shell: &mut Shell, arguments: &[String], streams: &Streams) -> Result<i32, Interrupt> {
    let Some((command, arguments)) = arguments.split_first() else { return Ok(0) };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match plain_name(command) {
        "set" => {
            for word in &words {
                match word.as_bytes() {
                    [b'-', flags @ ..] if flags.contains(&b'e') => shell.exits_on_error = true,
                    [b'+', flags @ ..] if flags.contains(&b'e') => shell.exits_on_error = false,
                    _ => {}
                }
            }
            Ok(0)
        }
        ":" | "true" | "trap" | "wait" | "clear" => Ok(0),
        "false" => Ok(1),
        "exit" => Err(Interrupt::Exit(words.first().map_or(shell.status, |code| status_of(code)))),
        "break" => Err(Interrupt::Break(words.first().and_then(|levels| levels.parse().ok()).unwrap_or(1))),
        "continue" => Err(Interrupt::Continue(words.first().and_then(|levels| levels.parse().ok()).unwrap_or(1))),
        "sh" | "ash" | "bash" => run_shell(shell, &words, streams).await,
        "exec" => match shell.execute(arguments, streams).await? {
            status if arguments.is_empty() => Ok(status),
            status => Err(Interrupt::Exit(status)),
        },
        "sleep" => sleep(shell, &words, streams).await,
        "echo" => shell.print(streams, text::echo(&words)).await.map(|()| 0),
        "printf" => shell.print(streams, text::printf(&words)).await.map(|()| 0),
        "cat" => cat(shell, &words, streams).await,
        "read" => read(shell, &words, streams).await,
        "tee" => tee(shell, &words, streams).await,
        "head" | "tail" | "wc" | "grep" => filter(shell, plain_name(command), &words, streams).await,
        "tar" => archive(shell, &words, streams).await,
        "cd" => cd(shell, &words, streams).await,
        "ls" => ls(shell, &words, streams).await,
        "mkdir" | "rm" | "rmdir" | "touch" | "cp" | "mv" => change(shell, plain_name(command), &words, streams).await,
        "test" => Ok(test(shell, &words)),
        "[" => match words.split_last() {
            Some((&"]", words)) => Ok(test(shell, words)),
            _ => fail(shell, streams, "sh: missing ]", 2).await,
        },
        "[[" => match words.split_last() {
            Some((&"]]", words)) => Ok(test(shell, words)),
            _ => fail(shell, streams, "sh: missing ]]", 2).await,
        },
        "expr" => {
            // Its operators are those of the shell but for the equals sign.
            let expression: Vec<&str> = words.iter().map(|word| if *word == "=" { "==" } else { *word }).collect();
            match arithmetic(&expression.join(" "), |_| String::new()) {
                Some(value) => {
                    shell.print(streams, format!("{value}\n")).await?;
                    Ok(i32::from(value == 0))
                }
                None => fail(shell, streams, "expr: syntax error", 2).await,
            }
        }
        "export" => {
            for word in words {
                if let Some((name, value)) = word.split_once('=') {
                    shell.variables.insert(name.to_owned(), value.to_owned());
                }
            }
            Ok(0)
        }
        "unset" => {
            words.iter().for_each(|name| drop(shell.variables.remove(*name)));
            Ok(0)
        }
        "env" | "printenv" => environment(shell, plain_name(command), arguments, streams).await,
        name => match information(shell, name, &words) {
            Some(text) => shell.print(streams, format!("{text}\n")).await.map(|()| 0),
            None if NAMES.contains(&name) => Ok(1),
            None if shell.is_virtual() => Err(Interrupt::Unknown),
            None => fail(shell, streams, &format!("sh: {command}: not found"), NOT_FOUND).await,
        },
    }
}

async fn fail(shell: &Shell, streams: &Streams, message: &str, status: i32) -> Result<i32, Interrupt> {
    shell.complain(streams, message).await.map(|()| status)
}

fn status_of(code: &str) -> i32 {
    code.parse::<i32>().map_or(2, |code| code & 255)
}

/// A line of text about the container, for commands that only print it.
fn information(shell: &Shell, name: &str, words: &[&str]) -> Option<String> {
    match name {
        "pwd" => Some(shell.folder.clone()),
        "hostname" => shell.variables.get("HOSTNAME").cloned(),
        "whoami" => Some("root".to_owned()),
        "id" => Some("uid=0(root) gid=0(root) groups=0(root)".to_owned()),
        "uname" if words.contains(&"-a") => Some("Linux simulated 0 x86_64 GNU/Linux".to_owned()),
        "uname" => Some("Linux".to_owned()),
        "date" => Some(text::date(shell.now(), words)),
        "basename" => words.first().map(|path| path.trim_end_matches('/').rsplit('/').next().unwrap_or("/").to_owned()),
        "dirname" => words.first().map(|path| match path.trim_end_matches('/').rsplit_once('/') {
            Some(("", _)) => "/".to_owned(),
            Some((folder, _)) => folder.to_owned(),
            None => ".".to_owned(),
        }),
        "which" => words.first().filter(|name| NAMES.contains(name)).map(|name| format!("/bin/{name}")),
        "seq" => {
            let number = |text: &&str| text.parse::<i64>().ok();
            let (first, last) = match words {
                [last] => (1, number(last)?),
                [first, last] => (number(first)?, number(last)?),
                _ => return None,
            };
            let numbers: Vec<String> = (first..=last).take(100_000).map(|number| number.to_string()).collect();
            Some(numbers.join("\n"))
        }
        _ => None,
    }
}

/// `sh [-c SCRIPT | FILE]`, or a shell that reads its input.
async fn run_shell(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let is_flag = |word: &&str| word.starts_with('-') && word.len() > 1;
    let flags = words.iter().take_while(|word| is_flag(word)).count();
    let has = |letter: char| words[..flags].iter().any(|flag| !flag.starts_with("--") && flag.contains(letter));
    let (has_script, exits_on_error) = (has('c'), has('e'));
    let script = match words.get(flags) {
        Some(script) if has_script => (*script).to_owned(),
        Some(path) => {
            let read = shell.files().read(&shell.resolve(path));
            match read {
                Ok(content) => String::from_utf8_lossy(&content).into_owned(),
                Err(_) => return fail(shell, streams, &format!("sh: can't open '{path}'"), 2).await,
            }
        }
        None if has_script => return fail(shell, streams, "sh: -c requires an argument", 2).await,
        None => {
            return shell
                .subshell(async |shell| {
                    while let Some(line) = streams.input.line().await {
                        shell.status = shell.script(&String::from_utf8_lossy(&line), streams).await?;
                    }
                    Ok(shell.status)
                })
                .await;
        }
    };
    shell
        .subshell(async |shell| {
            shell.exits_on_error = exits_on_error;
            shell.script(&script, streams).await
        })
        .await
}

async fn sleep(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let mut total = Duration::ZERO;
    for word in words {
        match text::sleep_time(word) {
            Some(time) => total = total.saturating_add(time),
            None => return fail(shell, streams, &format!("sleep: invalid number '{word}'"), 1).await,
        }
    }
    if words.is_empty() {
        return fail(shell, streams, "sleep: missing operand", 1).await;
    }
    shell.sleep(total).await.map(|()| 0)
}

async fn cat(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let mut status = 0;
    let files: Vec<&str> = words.iter().copied().filter(|word| *word == "-" || !word.starts_with('-')).collect();
    for path in if files.is_empty() { vec!["-"] } else { files } {
        if path == "-" {
            while let Some(chunk) = streams.input.chunk().await {
                shell.print(streams, chunk).await?;
            }
            continue;
        }
        let read = shell.files().read(&shell.resolve(path));
        match read {
            Ok(content) => shell.print(streams, content).await?,
            Err(why) => status = fail(shell, streams, &format!("cat: can't open '{path}': {why}"), 1).await?,
        }
    }
    Ok(status)
}

async fn read(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let Some(line) = streams.input.line().await else { return Ok(1) };
    let line = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
    let names: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let mut rest = line.as_str();
    for (index, name) in names.iter().enumerate() {
        let (value, after) = match rest.trim_start().split_once(char::is_whitespace) {
            Some((value, after)) if index + 1 < names.len() => (value, after),
            _ => (rest.trim(), ""),
        };
        shell.variables.insert((*name).to_owned(), value.to_owned());
        rest = after;
    }
    Ok(0)
}

async fn tee(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let Some(content) = streams.input.rest().await else { return Ok(1) };
    shell.print(streams, content.clone()).await?;
    let appends = words.contains(&"-a");
    let mut status = 0;
    for path in words.iter().filter(|word| !word.starts_with('-')) {
        if let Err(why) = shell.write_file(&shell.resolve(path), appends, content.to_vec()) {
            status = fail(shell, streams, &format!("tee: {path}: {why}"), 1).await?;
        }
    }
    Ok(status)
}

/// `head`, `tail`, `wc` and `grep`.
async fn filter(shell: &mut Shell, name: &str, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let request = match text::Filter::parse(name, words) {
        Ok(request) => request,
        Err(message) => return fail(shell, streams, &message, 2).await,
    };
    let mut content = Vec::new();
    for path in &request.files {
        let read = shell.files().read(&shell.resolve(path));
        match read {
            Ok(file) => content.extend(file),
            Err(why) => return fail(shell, streams, &format!("{name}: {path}: {why}"), 1).await,
        }
    }
    if request.files.is_empty() {
        match streams.input.rest().await {
            Some(input) => content.extend(input),
            None => return fail(shell, streams, &format!("{name}: the input is too long"), 1).await,
        }
    }
    let (output, status) = request.apply(&content);
    shell.print(streams, output).await?;
    Ok(status)
}

/// `tar`, as `kubectl cp` uses it.
async fn archive(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let request = match tar::Request::parse(words) {
        Ok(request) => request,
        Err(message) => return fail(shell, streams, &format!("tar: {message}"), 1).await,
    };
    let folder = resolve(&shell.folder, &request.folder);
    let file = request.file.as_deref().filter(|file| *file != "-").map(|file| shell.resolve(file));
    if request.creates {
        let created = tar::create(&shell.files(), &folder, &request.names);
        let (archive, missing) = match created {
            Ok(created) => created,
            Err(message) => return fail(shell, streams, &format!("tar: {message}"), 1).await,
        };
        match file {
            Some(path) => {
                if let Err(why) = shell.write_file(&path, false, archive) {
                    return fail(shell, streams, &format!("tar: can't open '{path}': {why}"), 1).await;
                }
            }
            None => shell.print(streams, archive).await?,
        }
        for name in &missing {
            shell.complain(streams, &format!("tar: {name}: No such file or directory")).await?;
        }
        if !missing.is_empty() {
            return fail(shell, streams, "tar: error exit delayed from previous errors", 1).await;
        }
        return Ok(0);
    }
    let archive = match file {
        Some(path) => shell.files().read(&path).map_err(|why| format!("can't open '{path}': {why}")),
        None => streams.input.rest().await.ok_or_else(|| "the archive is too long".to_owned()),
    };
    let extracted = archive.and_then(|archive| {
        if request.lists {
            tar::list(&archive)
        } else {
            tar::extract(&mut shell.files(), &folder, &archive).map(|()| String::new())
        }
    });
    match extracted {
        Ok(text) => shell.print(streams, text).await.map(|()| 0),
        Err(message) => fail(shell, streams, &format!("tar: {message}"), 1).await,
    }
}

async fn cd(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let path = words.first().copied().unwrap_or("/");
    let folder = shell.resolve(path);
    let is_folder = shell.files().get(&folder) == Some(&File::Folder);
    if !is_folder {
        return fail(shell, streams, &format!("sh: cd: can't cd to {path}: No such file or directory"), 1).await;
    }
    shell.variables.insert("PWD".to_owned(), folder.clone());
    shell.folder = folder;
    Ok(0)
}

async fn ls(shell: &mut Shell, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let is_long = words.iter().any(|word| word.starts_with('-') && word.contains('l'));
    let shows_hidden = words.iter().any(|word| word.starts_with('-') && word.to_lowercase().contains('a'));
    let paths: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let paths = if paths.is_empty() { vec!["."] } else { paths };
    let mut status = 0;
    let mut listing = String::new();
    for path in &paths {
        let full = shell.resolve(path);
        let found = {
            let files = shell.files();
            match files.get(&full) {
                Some(File::Folder) => {
                    if paths.len() > 1 {
                        listing.push_str(&format!("{path}:\n"));
                    }
                    let names = files.names(&full).into_iter().filter(|name| shows_hidden || !name.starts_with('.'));
                    for name in names {
                        let file = files.get(&resolve(&full, name));
                        listing.push_str(&text::listed(name, file, is_long));
                    }
                    true
                }
                Some(file) => {
                    listing.push_str(&text::listed(path, Some(file), is_long));
                    true
                }
                None => false,
            }
        };
        if !found {
            status = fail(shell, streams, &format!("ls: {path}: No such file or directory"), 1).await?;
        }
    }
    shell.print(streams, listing).await?;
    Ok(status)
}

/// Commands that change files and print nothing.
async fn change(shell: &mut Shell, name: &str, words: &[&str], streams: &Streams) -> Result<i32, Interrupt> {
    let has = |flag: char| words.iter().any(|word| word.starts_with('-') && word.contains(flag));
    let paths: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let mut status = 0;
    let mut problems = Vec::new();
    if matches!(name, "cp" | "mv") {
        let Some((to, from)) = paths.split_last().filter(|(_, from)| !from.is_empty()) else {
            return fail(shell, streams, &format!("{name}: missing operand"), 1).await;
        };
        for path in from {
            if let Err(why) = copy(shell, path, to, has('r') || has('R') || has('a'), name == "mv") {
                problems.push(format!("{name}: can't copy '{path}': {why}"));
            }
        }
    } else {
        for path in &paths {
            let full = shell.resolve(path);
            let mut files = shell.files();
            let is_folder = files.get(&full) == Some(&File::Folder);
            let done = match name {
                "mkdir" if has('p') => files.create_folders(&full),
                "mkdir" => files.create_folder(&full),
                "touch" if files.get(&full).is_some() => Ok(()),
                "touch" => files.write(&full, "".into(), 0o644),
                "rm" if is_folder && !has('r') && !has('R') => Err("is a directory"),
                "rmdir" if is_folder && !files.names(&full).is_empty() => Err("Directory not empty"),
                _ => match files.remove(&full) {
                    false if !has('f') => Err("No such file or directory"),
                    _ => Ok(()),
                },
            };
            if let Err(why) = done {
                problems.push(format!("{name}: '{path}': {why}"));
            }
        }
    }
    for problem in problems {
        status = fail(shell, streams, &problem, 1).await?;
    }
    Ok(status)
}

fn copy(shell: &Shell, from: &str, to: &str, is_recursive: bool, moves: bool) -> Result<(), &'static str> {
    let (source, mut target) = (shell.resolve(from), shell.resolve(to));
    let mut files = shell.files();
    if files.get(&target) == Some(&File::Folder) {
        target = resolve(&target, source.rsplit('/').next().unwrap_or_default());
    }
    if target == source || target.starts_with(&format!("{source}/")) {
        return Err("source and target are the same");
    }
    match files.get(&source).cloned() {
        None => return Err("No such file or directory"),
        Some(File::Regular { content, mode }) => files.write(&target, content, mode)?,
        Some(File::Folder) if !is_recursive && !moves => return Err("omitting directory"),
        Some(File::Folder) => {
            files.create_folders(&target)?;
            let below: Vec<(String, File)> =
                files.below(&source).map(|(path, file)| (path[source.len()..].to_owned(), file.clone())).collect();
            for (path, file) in below {
                match file {
                    File::Folder => files.create_folders(&format!("{target}{path}"))?,
                    File::Regular { content, mode } => files.write(&format!("{target}{path}"), content, mode)?,
                }
            }
        }
    }
    if moves {
        files.remove(&source);
    }
    Ok(())
}

/// `test`: files, strings and numbers.
fn test(shell: &Shell, words: &[&str]) -> i32 {
    let number = |text: &str| text.parse::<i64>().ok();
    let is_true = match words {
        ["!", rest @ ..] if !rest.is_empty() => return i32::from(test(shell, rest) == 0),
        [left, "-a", right @ ..] | [left, "&&", right @ ..] => test(shell, &[left]) == 0 && test(shell, right) == 0,
        ["-n", text] => !text.is_empty(),
        ["-z", text] => text.is_empty(),
        [flag @ ("-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s"), path] => {
            let files = shell.files();
            match (*flag, files.get(&shell.resolve(path))) {
                (_, None) => false,
                ("-f", Some(file)) => *file != File::Folder,
                ("-d", Some(file)) => *file == File::Folder,
                ("-s", Some(File::Regular { content, .. })) => !content.is_empty(),
                _ => true,
            }
        }
        [left, "=" | "==", right] => left == right,
        [left, "!=", right] => left != right,
        [left, operator, right] => match (number(left), number(right)) {
            (Some(left), Some(right)) => match *operator {
                "-eq" => left == right,
                "-ne" => left != right,
                "-lt" => left < right,
                "-le" => left <= right,
                "-gt" => left > right,
                "-ge" => left >= right,
                _ => return 2,
            },
            _ => return 2,
        },
        [text] => !text.is_empty(),
        [] => false,
        _ => return 2,
    };
    i32::from(!is_true)
}

/// `env` and `printenv`; `env NAME=VALUE … COMMAND` runs the command.
async fn environment(shell: &mut Shell, name: &str, arguments: &[String], streams: &Streams) -> Result<i32, Interrupt> {
    if let (Some(variable), "printenv") = (arguments.first(), name) {
        return match shell.variables.get(variable).cloned() {
            Some(value) => shell.print(streams, format!("{value}\n")).await.map(|()| 0),
            None => Ok(1),
        };
    }
    let assigned = arguments.iter().take_while(|word| word.contains('=')).count();
    if assigned < arguments.len() {
        return shell
            .subshell(async |shell| {
                for (name, value) in arguments[..assigned].iter().filter_map(|word| word.split_once('=')) {
                    shell.variables.insert(name.to_owned(), value.to_owned());
                }
                shell.execute(&arguments[assigned..], streams).await
            })
            .await;
    }
    let lines: String = shell.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    shell.print(streams, lines).await.map(|()| 0)
}

// The streams of a command without input and output.
impl Streams {
    /// No input, and nobody reads the output.
    pub fn null() -> Self {
        Streams { input: Input::of(""), output: Output::Null, error: Output::Null }
    }
}
