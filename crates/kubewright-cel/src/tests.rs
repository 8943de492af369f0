//! Tests of the language through the public interface.

use proptest::prelude::*;

use crate::{Activation, Budget, Environment, SizeLimits, Type, Value};

fn evaluate(text: &str) -> Result<Value, String> {
    let object = r#"{"a":1,"b":[1,2,3],"m":{"x":"1","y":"2"},"s":"hello","t":"2026-01-02T03:04:05.5Z"}"#;
    let activation = Activation::new().with("self", Value::from_json(&object.parse().expect("valid JSON")));
    let environment = Environment::new().variable("self", Type::Dyn);
    let program = environment.compile(text).map_err(|error| error.to_string())?;
    program.evaluate(&activation, &mut Budget::for_object()).map_err(|error| error.to_string())
}

#[test]
fn expressions_that_are_true() {
    for text in [
        "1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 3 == -1",
        "dyn(1) == 1.0 && dyn(1u) == 1 && 2 > 1.5 && 'a' < 'b'",
        "[1, 2] + [3] == [1, 2, 3] && 2 in [1, 2] && !('z' in {'a': 1})",
        "[,] == [] && {,} == {} && [1,] == [1]",
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "self.b.all(x, x > 0) && self.b.exists(x, x == 2) && self.b.exists_one(x, x == 2)",
        "self.b.exists(x, 6 / (x - 1) == 6)",
        "self.b.map(x, x * 2) == [2, 4, 6] && self.b.map(x, x > 1, x) == [2, 3] && self.b.filter(x, x > 1).size() == 2",
        "self.m.all(k, v, int(v) > 0) && self.b.all(i, v, v == i + 1)",
        "self.b.transformList(i, v, i * v) == [0, 2, 6]",
        "self.m.transformMap(k, v, v + '!')['x'] == '1!'",
        "has(self.a) && !has(self.z) && !has(self.m.z)",
        "self.?z.orValue(5) == 5 && self.?a.hasValue() && self.m[?'x'].value() == '1' && self.?z.?y.orValue(1) == 1",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().hasValue()",
        "[?self.?z, 1] == [1] && {?'a': self.?a} == {'a': 1}",
        "self.s.startsWith('he') && self.s.endsWith('lo') && self.s.contains('ell') && self.s.matches('^h.*o$')",
        "self.s.substring(1, 3) == 'el' && self.s.charAt(4) == 'o' && self.s.indexOf('l') == 2 && self.s.lastIndexOf('l') == 3",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'",
        "'abc'.split('') == ['a', 'b', 'c'] && ' x '.trim() == 'x' && 'aXb'.lowerAscii() == 'axb' && 'aa'.replace('a', 'b', 1) == 'ba'",
        "'%s is %d, %.2f, %x'.format(['a', 1, 2.5, 255]) == 'a is 1, 2.50, ff' && '%s'.format([[1, 'x']]) == '[1, \"x\"]'",
        "'%s has %d items'.format([string(self.s), size(self.b)]) == 'hello has 3 items' && '%s'.format([[self.s, 'x'].join('-')]) == 'hello-x'",
        "'%f %e %s'.format([12345.5, 2.71828, 1000000.0]) == '12,345.500000 2.718280×10⁰⁰ 1e+06' && '%b %s'.format([true, {'a': 1.5}]) == '1 {\"a\":1.500000}'",
        "'%s %s'.format([[timestamp(0), duration('90s')], b'x']) == '[timestamp(\"1970-01-01T00:00:00Z\"), duration(\"90s\")] x'",
        "string(1000000.0) == '1e+06' && string(0.00001) == '1e-05' && string(100000.0) == '100000' && string(0.0001) == '0.0001' && string(double('Infinity')) == '+Inf'",
        "'abc'.indexOf('a', 9) == -1 && 'abc'.indexOf('', 9) == 3 && 'hello'.lastIndexOf('o', 5) == -1 && 'hello'.lastIndexOf('l', 2) == 2 && 'hello'.lastIndexOf('') == 5",
        "duration('90s').getMilliseconds() == 90000 && duration('1.5s').getSeconds() == 1",
        "[9007199254740993, 1].sort() == [1, 9007199254740993] && dyn(9007199254740993) != 9007199254740992.0 && 1 < 1.5 && 2 > 1.5 && -1 > -1.5",
        "['bb', 'a', 'ccc'].sortBy(x, -size(x)) == ['ccc', 'bb', 'a'] && [[dyn(1), [2]], [3]].flatten(2) == [1, 2, 3] && [[1], [2]].flatten(0) == [[1], [2]]",
        "url('https://h/a%2Fb').getEscapedPath() == '/a%2Fb' && 'a[b]'.matches('^[a-z[\\\\]]+$') && '{{x}}'.matches('^{{.*}}$')",
        "matches('[', '[[]') && -(-9223372036854775807) == 9223372036854775807",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "[1, 2, 2].isSorted() && [1, 2].sum() == 3 && [3, 1].min() == 1 && [3, 1].max() == 3 && [5, 6].indexOf(6) == 1",
        "timestamp('2026-01-02T03:04:05Z').getFullYear() == 2026 && timestamp('2026-01-02T03:04:05Z').getDayOfWeek() == 5",
        "timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59 && timestamp('2026-01-02T23:30:00Z').getHours('+01:00') == 0",
        "timestamp(self.t).getMilliseconds() == 500 && string(timestamp(self.t)) == self.t",
        "timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp('2026-01-01T00:30:00Z') && duration('90s').getMinutes() == 1",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').add(quantity('500m')).compareTo(quantity('1')) == 0",
        "isQuantity('1Ki') && !isQuantity('x') && quantity('2k').asInteger() == 2000 && sign(quantity('-1')) == -1",
        "[[1], [2]].flatten() == [1, 2] && ['b', 'a'].min() == 'a' && [duration('1s'), duration('2s')].sum() == duration('3s')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1')) && ip('::1').family() == 6",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && isCIDR('::/0') && !isIP('1.2.3') && cidr('10.9.9.9/8').masked() == cidr('10.0.0.0/8')",
        "url('https://example.com:80/a%20b?x=1').getHostname() == 'example.com' && url('https://e.com:80/').getPort() == '80' && !isURL('x')",
        "url('https://e.com/?x=1&x=2').getQuery()['x'] == ['1', '2'] && url('https://e.com/a b'.replace(' ', '%20')).getEscapedPath() == '/a%20b'",
        "!format.dns1123Label().validate('ok').hasValue() && format.named('dns1123Label').value().validate('No').hasValue()",
        "type(1) == int && type('') == string && type([]) == list && type(timestamp(0)) == google.protobuf.Timestamp",
        "int('5') == 5 && string(1.5) == '1.5' && double('2') == 2.0 && bool('true') && size(b'abc') == 3",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && isSemver('v1.2', true) && !isSemver('1.2') && semver('4.5.6').minor() == 5",
        "strings.quote('a\"b') == '\"a\\\\\"b\"' && lists.range(3) == [0, 1, 2]",
        "r'\\d' == '\\\\d' && \"\"\"a\"b\"\"\" == 'a\"b' && '\\u00e9' == 'é' && '\\x41' == 'A'",
        "(self.a == 1 ? 'yes' : 'no') == 'yes' && --1 == 1 && !!true",
        "0x10 == 16 && 1e3 == 1000.0 && -9223372036854775808 < 0",
        "sets.contains([1, 2], [2]) && [1, 1, 2].distinct() == [1, 2]",
        "null == null && self.a != null",
    ] {
        assert_eq!(evaluate(text), Ok(Value::Bool(true)), "{text}");
    }
}

#[test]
fn bindings_are_available_if_enabled() {
    let text = "cel.bind(two, 1 + 1, cel.bind(four, two * two, four + two)) == 6";
    let program = Environment::new().with_bindings().compile(text).expect("cel.bind is enabled");
    assert_eq!(program.evaluate_bool(&Activation::new(), &mut Budget::for_object()), Ok(true));
    let error = Environment::new().compile(text).expect_err("cel.bind is disabled").to_string();
    assert!(error.contains("undeclared reference to 'cel'"), "{error}");
}

#[test]
fn failed_evaluations_report_the_reason() {
    for (text, want) in [
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("self.z", "no such key: z"),
        ("self.b[9]", "index out of bounds: 9"),
        ("self.s + 1", "no such overload"),
        ("optional.none().value()", "optional.none() dereference"),
        ("self.s.matches(self.s + '(')", "error parsing regexp"),
        ("self.b.all(x, 1 / (x - 1) >= 0)", "division by zero"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("timestamp(9223372036854775807)", "timestamp overflow"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("'%d'.format([2.5])", "could not convert argument to %d"),
        ("'%f'.format([self.a])", "could not convert argument to %f"),
        ("'abc'.indexOf('a', -1)", "index out of range: -1"),
        ("[1].flatten(-1)", "level must be non-negative"),
        ("sets.contains(lists.range(2000), lists.range(2000))", "operation cancelled"),
    ] {
        let error = evaluate(text).expect_err(text);
        assert!(error.starts_with(want), "{text}: {error}");
    }
}

#[test]
fn compile_errors_report_their_position() {
    for (text, want) in [
        (
            "self.a &&",
            "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.a &&\n | .........^",
        ),
        (
            "1 + 'a'",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
        ),
        ("foo", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"),
        ("foo(1)", "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^"),
        (
            "'a'.size(1)",
            "ERROR: <input>:1:9: found no matching overload for 'size' applied to 'string.(int)'\n | 'a'.size(1)\n | ........^",
        ),
        (
            "quantity('1').sign()",
            "ERROR: <input>:1:19: found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'\n | quantity('1').sign()\n | ..................^",
        ),
        (
            "[1].flatten()",
            "ERROR: <input>:1:12: found no matching overload for 'flatten' applied to 'list(int).()'\n | [1].flatten()\n | ...........^",
        ),
        (
            "['a'].sum()",
            "ERROR: <input>:1:10: found no matching overload for 'sum' applied to 'list(string).()'\n | ['a'].sum()\n | .........^",
        ),
    ] {
        assert_eq!(evaluate(text), Err(want.to_owned()));
    }
}

#[test]
fn an_expression_over_its_budget_is_stopped() {
    let nested = "[1,2,3,4,5,6,7,8,9,10]".to_owned();
    let mut text = "true".to_owned();
    for level in 0..8 {
        text = format!("{nested}.all(x{level}, {text})");
    }
    assert_eq!(evaluate(&text), Err("operation cancelled: actual cost limit exceeded".to_owned()));
}

#[test]
fn values_nested_in_themselves_cost_what_they_show() {
    // Each level has ten times the items of the one before.
    let nested = (0..19).fold("['a']".to_owned(), |inner, level| {
        let name = format!("v{level}");
        format!("[{inner}].map({name}, [{}])[0]", [&*name; 10].join(","))
    });
    // Short strings in a long list make a very long text.
    let long = (0..5).fold("'aaaaaaaaaa'".to_owned(), |inner, level| {
        let name = format!("s{level}");
        format!("[{inner}].map({name}, {})[0]", [&*name; 10].join("+"))
    });
    for text in [
        format!("[{nested}].map(n, n == n)[0]"),
        format!("[{nested}].map(n, n in [n])[0]"),
        format!("'%s'.format([{nested}])"),
        format!("[{nested}].map(n, n.indexOf(n[0]))[0]"),
        format!("sets.contains([{nested}], [{nested}])"),
        format!("[{long}].map(s, lists.range(100000).map(x, s).join())[0]"),
    ] {
        let want = Err("operation cancelled: actual cost limit exceeded".to_owned());
        assert_eq!(evaluate(&text), want, "{}", &text[..60]);
    }
    assert_eq!(evaluate("[[1, 2], [3]] == [[1, 2], [3]]"), Ok(Value::Bool(true)));
}

#[test]
fn nesting_is_limited() {
    for text in [
        "(".repeat(10_000),
        "[".repeat(10_000),
        "!".repeat(10_000) + "true",
        "-".repeat(9_999) + "1",
        vec!["1"; 10_000].join("+"),
        vec!["a"; 10_000].join("."),
        "a".to_owned() + &"[0]".repeat(10_000),
        "true ? ".repeat(5_000),
        "a".to_owned() + &".all(x, a".repeat(5_000),
    ] {
        let _ = evaluate(&text);
    }
    let chain = vec!["true"; 1_000].join(" && ");
    assert_eq!(evaluate(&chain), Ok(Value::Bool(true)));
}

#[test]
fn the_estimated_cost_grows_with_the_size_limits() {
    let environment = Environment::new().variable("self", Type::list(Type::Int));
    let program = environment.compile("self.all(x, x > 0)").expect("valid");
    let items = |max| SizeLimits { items: Some(Box::default()), ..SizeLimits::scalar(max) };
    assert_eq!(environment.max_cost(&program, &items(10)), 52);
    assert_eq!(environment.max_cost(&program, &items(100)), 502);
    assert_eq!(environment.max_cost(&program, &items(u64::MAX)), u64::MAX);
}

proptest! {
    #[test]
    fn arbitrary_text_causes_no_panic(text in ".{0,60}") {
        let _ = evaluate(&text);
    }

    #[test]
    fn arbitrary_token_sequences_cause_no_panic(parts in proptest::collection::vec(prop_oneof![
        Just("self"), Just(".a"), Just(".b"), Just(".s"), Just("1"), Just("-"), Just("'x'"), Just("("), Just(")"), Just("["),
        Just("]"), Just("+"), Just("=="), Just(" in "), Just("?"), Just(":"), Just(","), Just("{"), Just("}"), Just(".all("),
        Just("x"), Just(".size()"), Just(".substring("), Just(".split("), Just("has("), Just("&&"), Just("!"), Just("duration("),
        Just("'9223372036s'"), Just("9223372036854775807"), Just("*"), Just("%"), Just(".?"), Just("[?"), Just("timestamp("),
    ], 0..14)) {
        let _ = evaluate(&parts.concat());
    }
}
