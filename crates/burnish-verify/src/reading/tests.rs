use super::*;

fn text(response: &str) -> Option<String> {
    marked(response).map(|found| stripped(&found.text).to_owned())
}

#[test]
fn marks_are_looked_for_in_the_documented_order() {
    let all = "#### 4\nThe answer is 3. <answer>2</answer> \\boxed{1}";
    let order = [Mark::Boxed, Mark::Tag, Mark::Hashes, Mark::Phrase];
    let cut = [all, &all[..37], "#### 4\nThe answer is 3.", "The answer is 3."];
    for (response, mark) in cut.into_iter().zip(order) {
        assert_eq!(marked(response).map(|found| found.mark), Some(mark), "{response}");
    }
    assert_eq!(marked("3"), None);
}

#[test]
fn each_phrase_marks_what_follows_it() {
    for phrase in PHRASES {
        for said in [format!("3 and 4. {phrase} 7."), format!("3 and 4. {} **7**", phrase.to_uppercase())] {
            assert_eq!(text(&said).as_deref(), Some("7"), "{said}");
        }
        assert_eq!(text(&format!("3 and 4. {phrase}")), None, "{phrase}");
    }
    for (response, expected) in [
        ("**Answer:** 3", "3"),
        ("**Answer**: **3**", "3"),
        ("The answer is: 3\nThat was easy.", "3"),
        ("Final Answer:\n\n\\[\nx = 3\n\\]", "x = 3"),
        ("The answer is 2. The answer is 3", "3"),
        ("The answer is 3.\nI hope that the answer is", "3"),
    ] {
        assert_eq!(text(response).as_deref(), Some(expected), "{response}");
    }
    for response in
        ["I have no answers", "the answer", "The answer is: ", "The answer isn't 3", "The result is 3"]
    {
        assert_eq!(marked(response), None, "{response}");
    }
}

#[test]
fn a_phrase_is_passed_over_where_no_answer_follows_it() {
    let has_digit = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    let found = marked_where("The answer is 3. So the answer is right.", has_digit);
    assert_eq!(found.map(|found| found.text).as_deref(), Some("3. So the answer is right."));
    assert_eq!(marked_where("The answer is right.", has_digit), None);
}

#[test]
fn the_text_before_the_first_mark_is_kept() {
    assert_eq!(before("So 3. The answer is 3. \\boxed{3}"), "So 3. The ");
    assert_eq!(before("So 3."), "So 3.");
}

#[test]
fn a_reading_is_known_by_its_name() {
    for reading in Reading::ALL {
        assert_eq!(reading.name().parse(), Ok(reading));
        assert_eq!(serde_json::to_string(&reading).unwrap(), format!("\"{}\"", reading.name()));
    }
    let error = |name: &str| name.parse::<Reading>().unwrap_err().to_string();
    assert_eq!(error("first"), r#"`first` is no reading; there are "mark", "last" and "judge""#);
}
