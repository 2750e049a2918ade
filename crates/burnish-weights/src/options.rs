//! A merge that is described in words of a command line instead of a file.

use std::path::PathBuf;

use crate::Float;
use crate::WeightsError;
use crate::merge::{Input, Merge};
use crate::method::{Base, method};
use crate::settings::{Said, Scalar, Setting, Settings};

impl Merge {
    /// Merges `models` by the method `id`. `set` has the parameters as `key=value`; of one that each input has, either a
    /// value for all or as many as there are models, `weight=0.3,0.7`.
    ///
    /// # Errors
    /// Names the method or the parameter that is wrong.
    pub fn of_words(
        id: &str,
        base: Option<PathBuf>,
        models: Vec<PathBuf>,
        set: &[String],
        dtype: Option<Float>,
    ) -> Result<Self, WeightsError> {
        let method = method(id).map_err(WeightsError::Refused)?;
        let card = method.card();
        let models_given = models.len();
        let input = |path| Input::named(path, Settings::new());
        let mut inputs: Vec<Input> = models.into_iter().map(input).collect();
        let base = base.map(|path| {
            let base = input(path);
            if let Some(at) = inputs.iter().position(|input| input.is_model(&base)) {
                return Ok(at);
            }
            if card.base == Base::Input {
                let problem = format!("{id} has no base apart from its models; name it among the models");
                return Err(WeightsError::Refused(problem));
            }
            inputs.push(base);
            Ok(inputs.len() - 1)
        });
        let base = base.transpose()?;
        let mut shared = Settings::new();
        for word in set {
            let place = format!("--set {word}");
            let Some((key, value)) = word.split_once('=') else {
                return Err(WeightsError::config(place, "write `key=value`"));
            };
            let is_per_input = card.keys.iter().any(|known| known.name == key && known.is_per_input);
            let values: Vec<&str> = value.split(',').collect();
            if !is_per_input || values.len() == 1 {
                shared.insert(key.to_owned(), Setting { place, said: Said::One(scalar(value)) });
                continue;
            }
            if values.len() != models_given {
                let problem =
                    format!("`{key}` has {} values, but there are {models_given} models", values.len());
                return Err(WeightsError::config(place, problem));
            }
            for (input, value) in inputs.iter_mut().zip(values) {
                let setting = Setting { place: place.clone(), said: Said::One(scalar(value)) };
                input.settings.insert(key.to_owned(), setting);
            }
        }
        let merge = Merge { method, inputs, base, shared, dtype };
        merge.check()?;
        Ok(merge)
    }
}

fn scalar(text: &str) -> Scalar {
    match text {
        "true" => Scalar::Flag(true),
        "false" => Scalar::Flag(false),
        text => text.parse().map_or_else(|_| Scalar::Text(text.to_owned()), Scalar::Number),
    }
}
