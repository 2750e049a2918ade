//! The skill file: the prompt of deliberation, which a person may replace.

use burnish_core::settings::SettingError;

/// The skill file of this repository.
const OWN: &str = include_str!("skill.md");

/// The sections that are read.
const DELIBERATION: &str = "Deliberation prompt";
const DRAFT: &str = "Each draft";

/// What a skill file says about deliberation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What takes the place of the last message: `{prompt}` stands for it, `{drafts}` for the drafts.
    pub template: String,
    /// One draft: `{number}` is its place, `{draft}` its text.
    pub draft: String,
}

impl Skill {
    /// The skill of this repository, with other texts where they are given.
    pub fn with(template: Option<&str>, draft: Option<&str>) -> Skill {
        let own = || Skill::read(OWN).unwrap_or(Skill { template: String::new(), draft: String::new() });
        match (template, draft) {
            (Some(template), Some(draft)) => Skill { template: template.to_owned(), draft: draft.to_owned() },
            (template, draft) => {
                let own = own();
                Skill {
                    template: template.map_or(own.template, str::to_owned),
                    draft: draft.map_or(own.draft, str::to_owned),
                }
            }
        }
    }

    /// Reads a skill file: the first block (between lines of three backticks) of the section "Deliberation prompt", and that
    /// of "Each draft".
    ///
    /// # Errors
    /// Names the section or the place that is missing.
    pub fn read(text: &str) -> Result<Skill, SettingError> {
        let skill = Skill { template: block(text, DELIBERATION)?, draft: block(text, DRAFT)? };
        skill.check()?;
        Ok(skill)
    }

    /// Checks that both texts have their places.
    ///
    /// # Errors
    /// Names the text and the place.
    pub fn check(&self) -> Result<(), SettingError> {
        for (key, text, place) in [
            ("template", &self.template, "{prompt}"),
            ("template", &self.template, "{drafts}"),
            ("draft", &self.draft, "{draft}"),
        ] {
            if !text.contains(place) {
                return Err(SettingError::new(key, format!("must have {place}")));
            }
        }
        Ok(())
    }
}

/// The first block of a section, without the line break before its end.
fn block(text: &str, section: &str) -> Result<String, SettingError> {
    let refuse = |problem: &str| SettingError::new("skill", format!("its section \"{section}\" {problem}"));
    let is_head = |line: &&str| line.trim_start().starts_with('#');
    let mut lines = text.lines();
    lines
        .find(|line| is_head(line) && line.trim_start_matches(['#', ' ']).trim() == section)
        .ok_or_else(|| refuse("is missing"))?;
    let mut lines =
        lines.take_while(|line| !line.starts_with("## ")).skip_while(|line| !line.starts_with("```"));
    lines.next().ok_or_else(|| refuse("has no block between lines of three backticks"))?;
    let mut found = Vec::new();
    for line in lines {
        if line.starts_with("```") {
            let text = found.join("\n");
            // A draft ends with its line.
            return Ok(if section == DRAFT { text + "\n" } else { text });
        }
        found.push(line);
    }
    Err(refuse("has a block without an end"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_this_repository_can_be_read() {
        let skill = Skill::read(OWN).unwrap();
        assert_eq!(skill.template.matches("{prompt}").count(), 2);
        assert_eq!(skill.draft, "### Attempt {number}\n{draft}\n\n");
        assert_eq!(Skill::with(None, None), skill);
        assert_eq!(Skill::with(Some("a"), None), Skill { template: "a".into(), draft: skill.draft });
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = |part: &str| Skill::read(&OWN.replace(part, "")).unwrap_err().to_string();
        assert!(without("## Deliberation prompt").contains("\"Deliberation prompt\" is missing"));
        assert!(without("```").contains("has no block"), "{}", without("```"));
        assert!(without("{drafts}").contains("must have {drafts}"));
        assert!(without("{draft}").contains("draft: must have {draft}"));
    }
}
