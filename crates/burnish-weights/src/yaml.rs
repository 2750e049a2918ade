//! mergekit's configurations.
//!
//! It reads `merge_method`, `base_model`, `models` (or `slices`: any of `passthrough`, of other methods one that takes all
//! layers of every model), `parameters` with single values, gradients over layers and cases by name, `dtype`, `out_dtype`
//! and `tokenizer_source: base`. Anything else is an error that names the line and, if one is near, the key that was
//! probably meant.

use std::fs;
use std::path::{Path, PathBuf};

use burnish_core::names;
use saphyr::{LoadableYamlNode, MarkedYaml, Scalar as Value, YamlData};

use crate::merge::{Input, Merge};
use crate::method::method;
use crate::settings::{Case, Said, Scalar, Setting, Settings};
use crate::{Float, Layers, WeightsError};

/// A node of the file.
type Node<'a> = MarkedYaml<'a>;

/// Reads a configuration. Paths in it are relative to the working directory, as in mergekit.
///
/// # Errors
/// Names the file, the line and the key.
pub fn read(path: &Path) -> Result<Merge, WeightsError> {
    let text = fs::read_to_string(path).map_err(|source| WeightsError::read(path, source))?;
    parse(path, &text)
}

/// As [`read`], of text that is called `path` in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Merge, WeightsError> {
    let file = File { path };
    let documents = Node::load_from_str(text).map_err(|error| {
        let place = format!("{}, line {}", path.display(), error.marker().line());
        WeightsError::config(place, format!("not YAML: {}", error.info()))
    })?;
    let [document] = &documents[..] else {
        let problem = format!("holds {} documents; a configuration is one", documents.len());
        return Err(WeightsError::malformed(path, problem));
    };
    file.merge(document)
}

const TOP: [&str; 11] = [
    "merge_method",
    "base_model",
    "models",
    "slices",
    "modules",
    "parameters",
    "dtype",
    "out_dtype",
    "tokenizer_source",
    "tokenizer",
    "chat_template",
];

/// The file that is read, for errors.
struct File<'a> {
    path: &'a Path,
}

/// Key and value.
type Entry<'n, 'a> = (&'n str, &'n Node<'a>);

impl File<'_> {
    fn place(&self, node: &Node<'_>) -> String {
        format!("{}, line {}", self.path.display(), node.span.start.line())
    }

    fn error(&self, node: &Node<'_>, problem: impl Into<String>) -> WeightsError {
        WeightsError::config(self.place(node), problem)
    }

    fn merge(&self, document: &Node<'_>) -> Result<Merge, WeightsError> {
        let entries = self.mapping(document, "the configuration", &TOP)?;
        let get = |key| entries.iter().find(|(name, _)| *name == key).map(|(_, node)| *node);
        for (key, why) in [
            ("modules", "write `models` instead; all tensors of a checkpoint are merged alike"),
            ("tokenizer", "the result has the tokenizer of the base; leave it out"),
            ("chat_template", "the result has the template of the base; change it there afterwards"),
        ] {
            if let Some(node) = get(key) {
                return Err(self.error(node, format!("`{key}` is not supported: {why}")));
            }
        }
        if let Some(node) = get("tokenizer_source")
            && self.text(node, "tokenizer_source")? != "base"
        {
            let problem =
                "`tokenizer_source` must be base: vocabularies are not merged; bring the models to one first";
            return Err(self.error(node, problem));
        }
        let Some(id) = get("merge_method") else {
            return Err(self.error(document, "`merge_method` is missing"));
        };
        let method = method(self.text(id, "merge_method")?).map_err(|problem| self.error(id, problem))?;
        let mut shared = match get("parameters") {
            Some(node) => self.settings(node)?,
            None => Settings::new(),
        };
        let mut inputs = match (get("models"), get("slices")) {
            (Some(models), None) => self.models(models)?,
            (None, Some(slices)) if method.stacks() => self.stacked(slices)?,
            (None, Some(slices)) => self.slices(slices, &mut shared)?,
            (Some(_), Some(node)) => return Err(self.error(node, "give either `models` or `slices`")),
            (None, None) => return Err(self.error(document, "`models` is missing")),
        };
        let base = get("base_model").map(|node| self.base(node, &mut inputs, method.card())).transpose()?;
        let of = |key| get(key).map(|node| self.float(node, key)).transpose();
        // Only the last rounding counts, but a mistake in the other key is one as well.
        let (computed, stored) = (of("dtype")?, of("out_dtype")?);
        let merge = Merge { method, inputs, base, shared, dtype: stored.or(computed) };
        merge.check()?;
        Ok(merge)
    }

    fn float(&self, node: &Node<'_>, key: &str) -> Result<Float, WeightsError> {
        let name = self.text(node, key)?;
        let unknown = || format!("`{name}` is not a type; there are float32, bfloat16 and float16");
        Float::named(name).ok_or_else(|| self.error(node, unknown()))
    }

    /// The base, which is one of the models, or one more input.
    fn base(
        &self,
        node: &Node<'_>,
        inputs: &mut Vec<Input>,
        card: &crate::method::Card,
    ) -> Result<usize, WeightsError> {
        let base = Input::named(PathBuf::from(self.text(node, "base_model")?), Settings::new());
        if let Some(at) = inputs.iter().position(|input| input.is_model(&base)) {
            return Ok(at);
        }
        if card.base == crate::method::Base::Input {
            let problem =
                format!("{} has no base apart from its models; name it among them as well", card.id);
            return Err(self.error(node, problem));
        }
        inputs.push(base);
        Ok(inputs.len() - 1)
    }

    fn models(&self, node: &Node<'_>) -> Result<Vec<Input>, WeightsError> {
        let input = |node: &Node<'_>| {
            let entries = self.mapping(node, "an entry of `models`", &["model", "parameters"])?;
            self.input(node, &entries)
        };
        self.sequence(node, "models")?.iter().map(input).collect()
    }

    fn input(&self, node: &Node<'_>, entries: &[Entry<'_, '_>]) -> Result<Input, WeightsError> {
        let get = |key| entries.iter().find(|(name, _)| *name == key).map(|(_, node)| *node);
        let model = get("model").ok_or_else(|| self.error(node, "`model` is missing"))?;
        let settings = get("parameters").map_or(Ok(Settings::new()), |node| self.settings(node))?;
        let mut input = Input::named(PathBuf::from(self.text(model, "model")?), settings);
        input.layers = get("layer_range").map(|node| self.layers(node)).transpose()?;
        Ok(input)
    }

    fn layers(&self, node: &Node<'_>) -> Result<Layers, WeightsError> {
        let bounds: Vec<Option<usize>> = match &node.data {
            YamlData::Sequence(bounds) => {
                bounds.iter().map(|node| usize::try_from(node.data.as_integer()?).ok()).collect()
            }
            _ => Vec::new(),
        };
        match bounds[..] {
            [Some(start), Some(end)] => Ok(Layers { range: start..end, place: self.place(node) }),
            _ => Err(self.error(
                node,
                "`layer_range` must be two numbers of layers, such as [0, 16]; the end is not included",
            )),
        }
    }

    /// Slices that follow each other, each of one model. What is set for a slice holds for its model.
    fn stacked(&self, node: &Node<'_>) -> Result<Vec<Input>, WeightsError> {
        let mut inputs = Vec::new();
        for slice in self.sequence(node, "slices")? {
            let (sources, settings) = self.slice(slice)?;
            let [source] = sources else {
                return Err(
                    self.error(slice, "a slice of passthrough has one source; write a slice for each")
                );
            };
            let mut input = self.source(source)?;
            if input.layers.is_none() {
                return Err(self.error(source, "`layer_range` is missing, such as [0, 16]"));
            }
            for (key, setting) in settings {
                input.settings.entry(key).or_insert(setting);
            }
            inputs.push(input);
        }
        Ok(inputs)
    }

    /// The sources of a slice, and its settings.
    fn slice<'n, 'a>(&self, node: &'n Node<'a>) -> Result<(&'n [Node<'a>], Settings), WeightsError> {
        let entries = self.mapping(node, "an entry of `slices`", &["sources", "parameters"])?;
        let get = |key| entries.iter().find(|(name, _)| *name == key).map(|(_, node)| *node);
        let sources = get("sources").ok_or_else(|| self.error(node, "`sources` is missing"))?;
        let settings = get("parameters").map_or(Ok(Settings::new()), |node| self.settings(node))?;
        Ok((self.sequence(sources, "sources")?, settings))
    }

    fn source(&self, node: &Node<'_>) -> Result<Input, WeightsError> {
        let entries = self.mapping(node, "an entry of `sources`", &["model", "layer_range", "parameters"])?;
        self.input(node, &entries)
    }

    /// One slice that takes every layer of every model is the same as `models`.
    fn slices(&self, node: &Node<'_>, shared: &mut Settings) -> Result<Vec<Input>, WeightsError> {
        let [slice] = self.sequence(node, "slices")? else {
            let problem = "only `merge_method: passthrough` stacks slices; others take one, with all layers of every model";
            return Err(self.error(node, problem));
        };
        let (sources, settings) = self.slice(slice)?;
        for (key, setting) in settings {
            if shared.contains_key(&key) {
                return Err(WeightsError::config(&setting.place, format!("`{key}` is set here and below")));
            }
            shared.insert(key, setting);
        }
        sources.iter().map(|source| self.source(source)).collect()
    }

    fn settings(&self, node: &Node<'_>) -> Result<Settings, WeightsError> {
        let mut settings = Settings::new();
        for (key, node) in self.entries(node, "`parameters`")? {
            settings.insert(key.to_owned(), Setting { place: self.place(node), said: self.said(node, key)? });
        }
        Ok(settings)
    }

    fn said(&self, node: &Node<'_>, key: &str) -> Result<Said, WeightsError> {
        match &node.data {
            YamlData::Sequence(nodes) if nodes.iter().any(|node| node.data.is_mapping()) => {
                nodes.iter().map(|node| self.case(node, key)).collect::<Result<_, _>>().map(Said::Cases)
            }
            YamlData::Sequence(nodes) if nodes.is_empty() => {
                Err(self.error(node, format!("`{key}` is an empty list")))
            }
            YamlData::Sequence(nodes) => {
                nodes.iter().map(|node| self.scalar(node, key)).collect::<Result<_, _>>().map(Said::Gradient)
            }
            YamlData::Mapping(_) => Ok(Said::Cases(vec![self.case(node, key)?])),
            _ => self.scalar(node, key).map(Said::One),
        }
    }

    fn case(&self, node: &Node<'_>, key: &str) -> Result<Case, WeightsError> {
        let entries = self.mapping(node, &format!("a case of `{key}`"), &["filter", "value"])?;
        let get = |key| entries.iter().find(|(name, _)| *name == key).map(|(_, node)| *node);
        let value = get("value")
            .ok_or_else(|| self.error(node, format!("`value` is missing in a case of `{key}`")))?;
        if matches!(value.data, YamlData::Mapping(_)) {
            return Err(self.error(value, format!("a case of `{key}` holds a value or a list of values")));
        }
        let filter = match get("filter") {
            Some(node) if !matches!(node.data, YamlData::Value(Value::Null)) => {
                Some(self.text(node, "filter")?.to_owned())
            }
            _ => None,
        };
        Ok(Case { filter, said: self.said(value, key)? })
    }

    fn scalar(&self, node: &Node<'_>, key: &str) -> Result<Scalar, WeightsError> {
        match &node.data {
            YamlData::Value(Value::Integer(number)) => Ok(Scalar::Number(*number as f64)),
            YamlData::Value(Value::FloatingPoint(number)) => Ok(Scalar::Number(number.into_inner())),
            YamlData::Value(Value::Boolean(flag)) => Ok(Scalar::Flag(*flag)),
            YamlData::Value(Value::String(text)) => Ok(Scalar::Text(text.to_string())),
            _ => Err(self.error(node, format!("`{key}` has no value"))),
        }
    }

    fn text<'n>(&self, node: &'n Node<'_>, key: &str) -> Result<&'n str, WeightsError> {
        node.data.as_str().ok_or_else(|| self.error(node, format!("`{key}` must be a text")))
    }

    fn sequence<'n, 'a>(&self, node: &'n Node<'a>, key: &str) -> Result<&'n [Node<'a>], WeightsError> {
        match &node.data {
            YamlData::Sequence(nodes) if !nodes.is_empty() => Ok(nodes),
            _ => Err(self.error(node, format!("`{key}` must be a list"))),
        }
    }

    fn entries<'n, 'a>(&self, node: &'n Node<'a>, what: &str) -> Result<Vec<Entry<'n, 'a>>, WeightsError> {
        let YamlData::Mapping(mapping) = &node.data else {
            return Err(self.error(node, format!("{what} must hold keys and values")));
        };
        let entry = |(key, value): (&'n Node<'a>, &'n Node<'a>)| Ok((self.text(key, "a key")?, value));
        mapping.iter().map(entry).collect()
    }

    /// The entries of a mapping that knows only `known`.
    fn mapping<'n, 'a>(
        &self,
        node: &'n Node<'a>,
        what: &str,
        known: &[&str],
    ) -> Result<Vec<Entry<'n, 'a>>, WeightsError> {
        let entries = self.entries(node, what)?;
        let Some((key, value)) = entries.iter().find(|(key, _)| !known.contains(key)) else {
            return Ok(entries);
        };
        let hint = match names::nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        Err(self.error(value, format!("unknown key `{key}` in {what}; {hint}")))
    }
}
