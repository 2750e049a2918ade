//! Episodes to read: what was said, and beside it what came of it.

use super::html::{escape, pre};
use super::{DrawnEpisode, Said};

/// The most characters of one text; the journal has all of them.
const CHARACTERS_MAX: usize = 20_000;

/// All episodes; the first is open.
pub(super) fn episodes(episodes: &[DrawnEpisode]) -> String {
    if episodes.is_empty() {
        return String::new();
    }
    let drawn: String = episodes.iter().enumerate().map(|(at, episode)| shown(at, episode)).collect();
    format!("<h2>Episodes</h2>\n{drawn}")
}

fn shown(at: usize, episode: &DrawnEpisode) -> String {
    let open = if at == 0 { " open" } else { "" };
    let turns: String = episode.turns.iter().map(turn).collect();
    let drawing = match episode.drawing.trim_end() {
        "" => String::new(),
        drawing if is_laid_out(drawing) => pre(drawing),
        drawing => format!("<div class=\"text\">{}</div>\n", escape(drawing.trim_start_matches('\n'))),
    };
    let feedback = match episode.feedback.trim() {
        "" => String::new(),
        feedback => format!("<p class=\"text soft\">{}</p>\n", escape(&cut(feedback))),
    };
    let beside = match (drawing + &feedback).as_str() {
        "" => String::new(),
        beside => format!("<div>\n{beside}</div>\n"),
    };
    format!(
        "<details id=\"episode-{at}\"{open}><summary>{}</summary>\n<div class=\"episode\">\n<div>\n{turns}</div>\n\
         {beside}</div>\n</details>\n",
        escape(&episode.title)
    )
}

fn turn(said: &Said) -> String {
    let class = if said.is_sampled { "turn sampled" } else { "turn" };
    format!(
        "<div class=\"{class}\"><div class=\"who\">{}</div><div class=\"text\">{}</div></div>\n",
        escape(&said.who),
        escape(&cut(said.text.trim()))
    )
}

/// Whether a drawing would fall apart if its lines were broken: words of prose are never two spaces apart.
fn is_laid_out(drawing: &str) -> bool {
    let columns = drawing.lines().any(|line| line.trim().contains("  "));
    let longest = drawing.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    // Boards of one frame have single spaces, and short lines, which need not be broken.
    columns || longest <= 40
}

fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(CHARACTERS_MAX) else { return text.to_owned() };
    format!("{} … ({} characters more)", &text[..end], text[end..].chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_keep_their_layout_and_prose_is_wrapped() {
        assert!(is_laid_out("t=0    t=1\n# . B  # B ."));
        assert!(is_laid_out("A . # .\n. B # b"));
        assert!(!is_laid_out(
            "A house with a long description.\nopen the fridge > You see an apple in the fridge."
        ));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "ü".repeat(CHARACTERS_MAX + 3);
        assert!(cut(&text).ends_with("ü … (3 characters more)"));
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn without_a_drawing_what_was_said_has_the_whole_width() {
        let said = Said { who: "policy".into(), text: "7".into(), is_sampled: true };
        let episode = DrawnEpisode { turns: vec![said], ..DrawnEpisode::default() };
        assert_eq!(shown(0, &episode).matches("<div>").count(), 1);
        let drawn = DrawnEpisode { drawing: "A .".into(), ..episode };
        assert_eq!(shown(1, &drawn).matches("<div>").count(), 2);
    }
}
