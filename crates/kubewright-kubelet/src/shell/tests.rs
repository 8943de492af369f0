//! Scripts and what they print.

use futures_util::FutureExt;

use super::*;

fn virtual_shell(steps: u32) -> Shell {
    let clock = ShellClock::Virtual { start: Time::ZERO, until: Duration::from_secs(3600) };
    let variables = BTreeMap::from([("HOSTNAME".to_owned(), "web".to_owned())]);
    Shell::new(Arc::new(Mutex::new(Files::new("web", "10.0.0.1", []))), variables, clock, steps)
}

/// Runs a script, and returns its output and its end.
fn played(script: &str) -> (String, Result<i32, Interrupt>) {
    let buffer = Buffer::default();
    let output = Output::Buffer(buffer.clone());
    let streams = Streams { input: Input::of("first line\nsecond\n"), output: output.clone(), error: output };
    let words = ["sh", "-c", script].map(str::to_owned);
    let ended = virtual_shell(10_000).run(&words, &streams).now_or_never().expect("a virtual run never waits");
    (String::from_utf8_lossy(&buffer.take()).into_owned(), ended)
}

#[test]
fn scripts_print_what_a_shell_prints() {
    for (script, want) in [
        ("echo a  b; echo -n c; echo -e 'd\\te'", "a b\ncd\te\n"),
        ("X='a  b'; echo $X; echo \"$X\"; echo '$X' ${Y:-none}", "a b\na  b\n$X none\n"),
        ("echo a | cat | wc -l; printf '%s:%03d\\n' x 7 y 8", "1\nx:007\ny:008\n"),
        ("read a b; echo $b-$a; cat", "line-first\nsecond\n"),
        ("if [ -d /tmp ] && [ ! -f /tmp/x ]; then echo yes; else echo no; fi", "yes\n"),
        ("for i in $(seq 3); do [ $i = 2 ] && continue; echo $i; done", "1\n3\n"),
        ("i=3; while [ $i -gt 0 ]; do i=$((i - 1)); [ $i -eq 1 ] && break; done; echo $i", "1\n"),
        (
            "mkdir -p /d/e; echo x > /d/e/f; echo y >> /d/e/f; cp -r /d /c; cat /c/e/f; ls /c/e /nothing; true",
            "x\ny\nls: /nothing: No such file or directory\n/c/e:\nf\n",
        ),
        ("(cd /tmp; pwd); pwd; A=1 env | grep -c ^A=1", "/tmp\n/\n1\n"),
        ("false || echo $?; ! true; echo $?; hostname; cat /etc/hostname", "1\n1\nweb\nweb\n"),
        ("echo out; echo err >&2; echo gone > /dev/null; cat /none 2>/dev/null; echo $?", "out\nerr\n1\n"),
        ("echo 'a\nb\nab' | grep a | tail -n 1; printf 'a\\nb\\n' | head -1", "ab\na\n"),
        (
            "tar cf /tmp/x.tar -C /etc hostname; tar tf /tmp/x.tar; tar xf /tmp/x.tar -C /root; cat /root/hostname",
            "hostname\nweb\n",
        ),
        ("echo $((2 + 3 * (4 - 1))) $((7 / 2)) $((1 > 2))", "11 3 0\n"),
        ("date; sleep 90; date +%s", "0001-01-01T00:00:00Z\n-62135596710\n"),
    ] {
        assert_eq!(played(script), (want.to_owned(), Ok(0)), "{script}");
    }
}

#[test]
fn scripts_end_as_a_shell_ends() {
    for (script, want) in [
        ("exit 3; echo", Ok(3)),
        ("(exit 3); echo $? > /dev/null; (exit 4)", Ok(4)),
        ("exit 300", Ok(44)),
        ("nginx", Err(Interrupt::Unknown)),
        ("true | nginx", Err(Interrupt::Unknown)),
        ("while :; do :; done", Err(Interrupt::Limit)),
        ("sleep 7200", Err(Interrupt::Limit)),
        ("echo $((1 / 0))", Ok(2)),
        ("sh -c 'exit 5'", Ok(5)),
        ("if [ $(expr 7 % 2) -ne 0 ]; then exit 4; fi", Ok(4)),
        ("expr 2 = 3", Ok(1)),
        ("expr 1 +", Ok(2)),
        ("if [[ -r /tmp/x ]]; then exit 1; else touch /tmp/x; [[ -r /tmp/x ]]; fi", Ok(0)),
        ("[[ a == b", Ok(2)),
        ("[ a = b", Ok(2)),
        ("test 1 -lt x", Ok(2)),
        ("set -e; false || true; ! false; if false; then :; fi; false; exit 9", Ok(1)),
        ("sh -ec 'false; exit 9'; exit $?", Ok(1)),
        ("x() { :; }", Err(Interrupt::Unknown)),
    ] {
        assert_eq!(played(script).1, want, "{script}");
    }
}

#[test]
fn a_script_that_calls_itself_is_stopped() {
    let (printed, ended) = played("echo 'sh /tmp/x' > /tmp/x; sh /tmp/x");
    assert_eq!((printed.as_str(), ended), ("sh: too many nested shells\n", Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_real_run_waits_and_is_killed_when_it_never_ends() {
    let shell = |steps: u32| Shell { clock: ShellClock::Real { slowdown: 2.0 }, ..virtual_shell(steps) };
    let words = |script: &str| ["sh", "-c", script].map(str::to_owned);
    let start = tokio::time::Instant::now();
    assert_eq!(shell(100).run(&words("sleep 5; nginx"), &Streams::null()).await, Ok(NOT_FOUND));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(shell(10_000).run(&words("while :; do :; done"), &Streams::null()).await, Ok(KILLED));
}

#[tokio::test]
async fn an_interactive_shell_prompts() {
    let buffer = Buffer::default();
    let output = Output::Buffer(buffer.clone());
    let input = Input::of("cd /tmp\nX=1; echo $X\n(\nexit 7\n");
    let streams = Streams { input, output: output.clone(), error: output };
    let mut shell = Shell { clock: ShellClock::Real { slowdown: 1.0 }, ..virtual_shell(100) };
    assert_eq!(shell.interact(&streams).await, Ok(7));
    let want = "/ # /tmp # 1\n/tmp # sh: syntax error: unexpected end of file (expecting \")\")\n/tmp # ";
    assert_eq!(String::from_utf8_lossy(&buffer.take()), want);
}
