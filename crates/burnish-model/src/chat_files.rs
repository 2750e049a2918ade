//! The chat files of a model directory: tokenizer, templates, end tokens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::generation::GenerationConfig;
use crate::{Chat, ChatTemplate, ModelError, Tokenizer, files};

pub(crate) const TEMPLATE: &str = "chat_template.jinja";
const MORE_TEMPLATES: &str = "additional_chat_templates";

impl Chat {
    /// Reads `tokenizer.json`, the templates (`chat_template.jinja` and `additional_chat_templates/`, else
    /// `chat_template` in `tokenizer_config.json`) and the end tokens (`eos_token_id` in
    /// `generation_config.json`, else in `config.json`, else `eos_token` in `tokenizer_config.json`) of a model
    /// directory.
    ///
    /// # Errors
    /// Names the file, and what is missing or wrong in it.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        Chat::load_with(dir, None)
    }

    /// As [`Chat::load`], but with `template`, if given, instead of all templates of the directory.
    ///
    /// # Errors
    /// As [`Chat::load`].
    pub fn load_with(dir: &Path, template: Option<ChatTemplate>) -> Result<Self, ModelError> {
        let tokenizer = Tokenizer::load(&dir.join("tokenizer.json"))?;
        let tokenizer_config = read_tokenizer_config(dir)?;
        check_added_tokens(&dir.join("tokenizer_config.json"), &tokenizer_config, &tokenizer)?;
        let template = template.map_or_else(|| load_template(dir, &tokenizer_config), Ok)?;
        let generation_config = GenerationConfig::load(dir)?;
        let (end_ids, place) = read_end_ids(
            dir,
            &tokenizer,
            &tokenizer_config,
            generation_config.as_ref().map(|config| &config.json),
        )?;
        Chat::assemble(tokenizer, template, end_ids, tokenizer_config, generation_config, &place)
    }

    /// Writes `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja` and, if they exist,
    /// `additional_chat_templates/` and `generation_config.json`, so that `transformers` loads them.
    ///
    /// # Errors
    /// If a file can't be written; an earlier file of that name then stays.
    pub fn save(&self, dir: &Path) -> Result<(), ModelError> {
        files::create_directory(dir)?;
        self.tokenizer.save(&dir.join("tokenizer.json"))?;
        // Templates in separate files take precedence over those in this file.
        let mut config = self.tokenizer_config.clone();
        config.remove("chat_template");
        files::write_json(&dir.join("tokenizer_config.json"), &Value::Object(config))?;
        files::write_text(&dir.join(TEMPLATE), self.template.source())?;
        let more = dir.join(MORE_TEMPLATES);
        for (name, source) in self.template.others() {
            files::create_directory(&more)?;
            files::write_text(&more.join(format!("{name}.jinja")), source)?;
        }
        match &self.generation_config {
            Some(config) => {
                let json = Value::Object(config.json.clone());
                files::write_json(&dir.join("generation_config.json"), &json)
            }
            None => Ok(()),
        }
    }
}

fn read_object(path: &Path) -> Result<Map<String, Value>, ModelError> {
    match files::read_json_if_there(path)? {
        Some(Value::Object(map)) => Ok(map),
        Some(_) => Err(ModelError::malformed(path, "not a JSON object")),
        None => Ok(Map::new()),
    }
}

/// `tokenizer_config.json`, with the special tokens of `special_tokens_map.json` where older directories have them
/// there.
fn read_tokenizer_config(dir: &Path) -> Result<Map<String, Value>, ModelError> {
    let mut config = read_object(&dir.join("tokenizer_config.json"))?;
    if !config.contains_key("added_tokens_decoder") {
        let map = read_object(&dir.join("special_tokens_map.json"))?;
        config.extend(map.into_iter().filter(|(name, _)| name.ends_with("_token")));
    }
    Ok(config)
}

/// `transformers` adds tokens that occur only in `added_tokens_decoder`; here `tokenizer.json` must have them all.
fn check_added_tokens(
    path: &Path,
    tokenizer_config: &Map<String, Value>,
    tokenizer: &Tokenizer,
) -> Result<(), ModelError> {
    let Some(added) = tokenizer_config.get("added_tokens_decoder").and_then(Value::as_object) else {
        return Ok(());
    };
    for (id, token) in added {
        let (Ok(number), Some(content)) = (id.parse::<u32>(), token["content"].as_str()) else {
            let problem =
                format!("`added_tokens_decoder.{id}` must be a token id with an object that has `content`");
            return Err(ModelError::malformed(path, problem));
        };
        let found = tokenizer.token(number);
        if found.as_deref() != Some(content) {
            let found = found.map_or("nothing".into(), |token| format!("`{token}`"));
            let problem = format!(
                "`added_tokens_decoder.{id}` is `{content}`, but tokenizer.json has {found} there; save the tokenizer \
                 again with transformers"
            );
            return Err(ModelError::malformed(path, problem));
        }
    }
    Ok(())
}

/// The templates of a directory: those in separate files, or else those in `tokenizer_config.json`.
fn load_template(dir: &Path, tokenizer_config: &Map<String, Value>) -> Result<ChatTemplate, ModelError> {
    let mut found = template_files(dir)?;
    if found.is_empty() {
        found = templates_in(&dir.join("tokenizer_config.json"), tokenizer_config.get("chat_template"))?;
    }
    let Some((source, path)) = found.remove("default") else {
        if found.is_empty() {
            return Err(ModelError::NoTemplate { path: dir.into() });
        }
        let names: Vec<String> = found.into_keys().collect();
        let problem =
            format!("no chat template is named `default`, only {}; put it into {TEMPLATE}", names.join(", "));
        return Err(ModelError::malformed(dir, problem));
    };
    found.into_iter().try_fold(ChatTemplate::new(source, &path)?, |template, (name, (source, path))| {
        template.with_named(&name, source, &path)
    })
}

/// Templates by name: the text, and the file that holds it.
type Templates = BTreeMap<String, (String, PathBuf)>;

fn template_files(dir: &Path) -> Result<Templates, ModelError> {
    let mut found = Templates::new();
    let path = dir.join(TEMPLATE);
    if path.exists() {
        found.insert("default".into(), (files::read_text(&path)?, path));
    }
    let more = dir.join(MORE_TEMPLATES);
    if !more.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(&more).map_err(|source| ModelError::read(&more, source))? {
        let path = entry.map_err(|source| ModelError::read(&more, source))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".jinja") {
            found.insert(name.into(), (files::read_text(&path)?, path));
        }
    }
    Ok(found)
}

/// `chat_template`: one text, or a list of `{name, template}`.
fn templates_in(path: &Path, value: Option<&Value>) -> Result<Templates, ModelError> {
    let entry = |entry: &Value| {
        let (name, source) = (entry["name"].as_str()?, entry["template"].as_str()?);
        // The name becomes a file name when the chat is saved.
        let is_plain = Path::new(name).file_name().is_some_and(|file| file == name);
        is_plain.then_some((name.to_string(), (source.to_string(), path.to_path_buf())))
    };
    let found = match value {
        None | Some(Value::Null) => Some(Templates::new()),
        Some(Value::String(source)) => {
            Some(Templates::from([("default".into(), (source.clone(), path.into()))]))
        }
        Some(Value::Array(list)) => list.iter().map(entry).collect(),
        Some(_) => None,
    };
    found.ok_or_else(|| {
        ModelError::malformed(
            path,
            "`chat_template` must be a text, or a list of {\"name\", \"template\"} with plain names",
        )
    })
}

/// The special tokens of `tokenizer_config.json` by name, such as `bos_token`, which templates may read.
pub(crate) fn special_tokens(config: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    config.iter().filter(|(name, _)| name.ends_with("_token")).filter_map(|(name, value)| {
        let token = value.as_str().or_else(|| value["content"].as_str())?;
        Some((name.as_str(), token))
    })
}

/// The end ids, and where they were found.
fn read_end_ids(
    dir: &Path,
    tokenizer: &Tokenizer,
    tokenizer_config: &Map<String, Value>,
    generation_config: Option<&Map<String, Value>>,
) -> Result<(Vec<u32>, String), ModelError> {
    let config = read_object(&dir.join("config.json"))?;
    let places = [("generation_config.json", generation_config), ("config.json", Some(&config))];
    for (name, json) in places {
        let Some(value) = json.and_then(|json| json.get("eos_token_id")).filter(|value| !value.is_null())
        else {
            continue;
        };
        let path = dir.join(name);
        let ids = one_or_more_ids(value).ok_or_else(|| {
            ModelError::malformed(
                &path,
                format!("`eos_token_id` is {value}; it must be an id or a list of ids"),
            )
        })?;
        return Ok((ids, format!("{}: eos_token_id", path.display())));
    }
    let path = dir.join("tokenizer_config.json");
    let place = format!("{}: eos_token", path.display());
    match special_tokens(tokenizer_config).find(|(name, _)| *name == "eos_token") {
        Some((_, token)) => Ok((tokenizer.token_ids(&[token], &place)?, place)),
        None => Err(ModelError::malformed(
            dir,
            "nothing says which token ends an answer: neither `eos_token_id` in generation_config.json or \
             config.json, nor `eos_token` in tokenizer_config.json",
        )),
    }
}

fn one_or_more_ids(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(id).collect(),
        _ => Some(vec![id(value)?]),
    }
}
