//! Templates against jinja2 under the settings of transformers (`golden/make_expressions.py`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use burnish_jinja::{Dict, Options, Template, Value};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    variables: serde_json::Map<String, serde_json::Value>,
    /// Pairs of a template and its text; `None` if the template is refused.
    cases: Vec<(String, Option<String>)>,
}

fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::None,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap()),
        },
        serde_json::Value::String(text) => Value::text(text.as_str()),
        serde_json::Value::Array(items) => Value::list(items.iter().map(value).collect()),
        serde_json::Value::Object(map) => {
            let mut dict = Dict::default();
            map.iter().for_each(|(key, item)| dict.set(key, value(item)));
            Value::dict(dict)
        }
    }
}

fn render(source: &str, variables: &Dict) -> Result<String, String> {
    let template = Template::new(source).map_err(|error| error.to_string())?;
    template.render(variables, &Options::default()).map_err(|error| error.to_string())
}

#[test]
fn every_expression_gives_the_text_of_jinja2_or_is_refused_as_there() {
    let golden: Golden = serde_json::from_str(include_str!("golden/expressions.json")).unwrap();
    let mut variables = Dict::default();
    golden.variables.iter().for_each(|(name, json)| variables.set(name, value(json)));
    variables.set("big", Value::integer("123456789012345678901234567890").unwrap());
    assert!(golden.cases.len() > 10_000);
    let mut wrong = Vec::new();
    for (template, expected) in &golden.cases {
        let found = render(template, &variables);
        if found.as_ref().ok() != expected.as_ref() {
            wrong.push(format!("{template}\n  jinja2 {expected:?}\n  here   {found:?}"));
        }
    }
    let shown = wrong.iter().take(400).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {} differ:\n{shown}", wrong.len(), golden.cases.len());
}

/// Templates that would need too much stack or memory are refused, even on a thread with the smallest stack.
#[test]
fn templates_without_measure_are_refused() {
    let long = |part: &str, count: usize| part.repeat(count);
    let deep = [
        format!("{{{{ {}1{} }}}}", long("(", 5000), long(")", 5000)),
        format!("{{{{ {}1 }}}}", long("not ", 5000)),
        format!("{{{{ {}1 }}}}", long("-", 5000)),
        format!("{{{{ 1{} }}}}", long(" + 1", 5000)),
        format!("{{{{ x{} }}}}", long(".y", 5000)),
        format!("{{{{ x{} }}}}", long("()", 5000)),
        format!("{{{{ 'x'{} }}}}", long("|upper", 5000)),
        format!("{}x{}", long("{% if true %}", 5000), long("{% endif %}", 5000)),
        format!("{{{{ {}1{} }}}}", long("[", 5000), long("]", 5000)),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        "{{ 'a' * 1000000000 }}".to_owned(),
        "{{ 10 ** (10 ** 10) }}".to_owned(),
        "{{ '%1000000000d' % 1 }}".to_owned(),
        "{{ '%99999999999999999999d' % 1 }}".to_owned(),
        "{{ '%.99999999999999999999f' % 1 }}".to_owned(),
        "{{ '{:1000000000}'.format(1) }}".to_owned(),
        "{{ 'a'|center(1000000000) }}".to_owned(),
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
            .to_owned(),
    ];
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let all = thread.spawn(move || {
        for template in &deep {
            assert!(render(template, &Dict::default()).is_err(), "{:.60}", template);
        }
        let fits =
            format!("{{{{ {}1{} }}}}{{{{ 1{} }}}}", "(".repeat(50), ")".repeat(50), " + 1".repeat(400));
        assert_eq!(render(&fits, &Dict::default()).unwrap(), "1401");
    });
    all.unwrap().join().unwrap();
}
