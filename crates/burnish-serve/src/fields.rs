//! The fields of a request, taken one by one; what is left over is unknown.

use serde_json::{Map, Value};

use crate::Refusal;

/// Fields of a request. A field that is null counts as absent.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let wrong = |problem: String| Refusal {
            param: None,
            ..Refusal::invalid("", format!("the request is no JSON object: {problem}"))
        };
        let text = std::str::from_utf8(body).map_err(|error| wrong(error.to_string()))?;
        match burnish_core::json::parse(text).map_err(|error| wrong(error.to_string()))? {
            Value::Object(mut fields) => {
                fields.retain(|_, value| !value.is_null());
                Ok(Fields(fields))
            }
            _ => Err(wrong("it is something else".to_owned())),
        }
    }

    /// Takes a field as it is.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    fn take<T>(
        &mut self,
        name: &str,
        kind: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.0.remove(name) else { return Ok(None) };
        let wrong = || Refusal::invalid(name, format!("`{name}` must be {kind}, not {}", shortened(&value)));
        read(&value).map(Some).ok_or_else(wrong)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        self.take(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        Ok(self.take(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<f32>, Refusal> {
        let read = |value: &Value| value.as_f64().map(|number| number as f32).filter(|it| it.is_finite());
        self.take(name, "a number", read)
    }

    pub(crate) fn count(&mut self, name: &str) -> Result<Option<usize>, Refusal> {
        let read = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
        self.take(name, "a whole number, 0 or more", read)
    }

    /// A whole number; a negative one is read as its two's complement.
    pub(crate) fn seed(&mut self) -> Result<Option<u64>, Refusal> {
        let read = |value: &Value| value.as_u64().or_else(|| value.as_i64().map(|seed| seed as u64));
        self.take("seed", "a whole number", read)
    }

    /// A text or a list of them.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, Refusal> {
        let read = |value: &Value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(list) => list.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        Ok(self.take(name, "a text or a list of texts", read)?.unwrap_or_default())
    }

    pub(crate) fn ids(&mut self, name: &str) -> Result<Vec<u32>, Refusal> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let read = |value: &Value| value.as_array()?.iter().map(id).collect();
        Ok(self.take(name, "a list of token ids", read)?.unwrap_or_default())
    }

    /// Takes a field that may have one value only, because another is not supported.
    ///
    /// # Errors
    /// If it has another.
    pub(crate) fn only(&mut self, name: &str, is_allowed: impl Fn(&Value) -> bool) -> Result<(), Refusal> {
        match self.0.remove(name) {
            Some(value) if !is_allowed(&value) => {
                Err(Refusal::invalid(name, format!("`{name}` can't be {} here", shortened(&value))))
            }
            _ => Ok(()),
        }
    }

    /// Drops a field.
    pub(crate) fn ignore(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Says that all fields were taken.
    ///
    /// # Errors
    /// Names the first one that was not.
    pub(crate) fn finish(self, known: &[&str]) -> Result<(), Refusal> {
        let Some(name) = self.0.keys().next() else { return Ok(()) };
        let near = burnish_core::names::nearest(name, known.iter().copied());
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Err(Refusal::invalid(name, format!("the field `{name}` is not known or not supported here{near}")))
    }
}

/// The beginning of a value's text.
fn shortened(value: &Value) -> String {
    burnish_http::shortened(&value.to_string())
}
