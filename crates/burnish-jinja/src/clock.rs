//! `strftime` of a fixed time, for templates that write the date.

use crate::error::{Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A calendar date and time, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: i64,
    /// From 1.
    month: usize,
    /// From 1.
    day: i64,
    /// From 1, counted from the first of January.
    day_of_year: i64,
    /// Days since Sunday.
    weekday: usize,
    seconds: i64,
}

impl Date {
    /// The date of a number of seconds since 1970, by Hinnant's `civil_from_days`
    /// (howardhinnant.github.io/date_algorithms.html).
    fn at(unix_seconds: i64) -> Self {
        let days = unix_seconds.div_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Counted from March, so that the leap day is the last of the year.
        let month = (5 * day_of_year + 2) / 153;
        let is_new_year = month >= 10;
        let year = year_of_era + era * 400 + i64::from(is_new_year);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        // January and February have 59 or 60 days; the year counted from March has 306 before January.
        let day_of_year_from_january =
            if is_new_year { day_of_year - 306 } else { day_of_year + 59 + i64::from(is_leap) };
        Date {
            year,
            day_of_year: day_of_year_from_january + 1,
            month: (if is_new_year { month - 9 } else { month + 3 }) as usize,
            day: day_of_year - (153 * month + 2) / 5 + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            seconds: unix_seconds.rem_euclid(86_400),
        }
    }
}

/// Formats a number of seconds since 1970, in UTC, with the codes of C's `strftime` that templates use. A `-` after `%`
/// omits padding, as in glibc.
///
/// # Errors
/// Names a code that is not supported.
pub(crate) fn strftime(format: &str, unix_seconds: i64) -> Result<String> {
    let date = Date::at(unix_seconds);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(next) = chars.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        let rest = chars.as_str();
        let is_bare = rest.starts_with('-');
        chars = rest.strip_prefix('-').unwrap_or(rest).chars();
        let code = chars.next();
        let Some(text) = code.and_then(|code| field(&date, unix_seconds, code)) else {
            let dash = if is_bare { "-" } else { "" };
            let code = code.map(String::from).unwrap_or_default();
            let problem = format!("strftime_now: code %{dash}{code} is not supported");
            return Err(Error::other(problem));
        };
        match text.trim_start_matches(['0', ' ']) {
            _ if !is_bare => out += &text,
            "" => out.push('0'),
            bare => out += bare,
        }
    }
    Ok(out)
}

/// The text of one code; `None` if it is not supported.
fn field(date: &Date, unix_seconds: i64, code: char) -> Option<String> {
    let (month, day) = (MONTHS[date.month - 1], DAYS[date.weekday]);
    let hour = date.seconds / 3600;
    let both = |format: &str| strftime(format, unix_seconds).ok();
    Some(match code {
        'Y' => date.year.to_string(),
        'y' => format!("{:02}", date.year.rem_euclid(100)),
        'm' => format!("{:02}", date.month),
        'd' => format!("{:02}", date.day),
        'e' => format!("{:2}", date.day),
        'j' => format!("{:03}", date.day_of_year),
        'B' => month.into(),
        'b' | 'h' => month[..3].into(),
        'A' => day.into(),
        'a' => day[..3].into(),
        'H' => format!("{hour:02}"),
        'I' => format!("{:02}", (hour + 11) % 12 + 1),
        'M' => format!("{:02}", date.seconds / 60 % 60),
        'S' => format!("{:02}", date.seconds % 60),
        'p' => if hour < 12 { "AM" } else { "PM" }.into(),
        'F' => both("%Y-%m-%d")?,
        'T' => both("%H:%M:%S")?,
        'R' => both("%H:%M")?,
        'D' => both("%m/%d/%y")?,
        '%' => "%".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected texts are what `date -u -d @SECONDS` gives.
    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%A %a %d %B %b %Y-%m-%d %y %H:%M:%S %%";
        let expect = [
            (0, "Thursday Thu 01 January Jan 1970-01-01 70 00:00:00 %"),
            (951_827_696, "Tuesday Tue 29 February Feb 2000-02-29 00 12:34:56 %"),
            (1_709_251_199, "Thursday Thu 29 February Feb 2024-02-29 24 23:59:59 %"),
            (4_107_542_400, "Monday Mon 01 March Mar 2100-03-01 00 00:00:00 %"),
            (-1, "Wednesday Wed 31 December Dec 1969-12-31 69 23:59:59 %"),
        ];
        for (seconds, text) in expect {
            assert_eq!(strftime(all, seconds).unwrap(), text);
        }
        let more = "%F %T %R %D %e %j %I %p %h|%-d %-m %-H %-I %-j %-e %-y";
        let expect = [
            (0, "1970-01-01 00:00:00 00:00 01/01/70  1 001 12 AM Jan|1 1 0 12 1 1 70"),
            (951_827_696, "2000-02-29 12:34:56 12:34 02/29/00 29 060 12 PM Feb|29 2 12 12 60 29 0"),
            (1_704_070_861, "2024-01-01 01:01:01 01:01 01/01/24  1 001 01 AM Jan|1 1 1 1 1 1 24"),
            (1_735_646_400, "2024-12-31 12:00:00 12:00 12/31/24 31 366 12 PM Dec|31 12 12 12 366 31 24"),
        ];
        for (seconds, text) in expect {
            assert_eq!(strftime(more, seconds).unwrap(), text);
        }
        for wrong in ["%Q", "%-Q", "%"] {
            let error = strftime(wrong, 0).unwrap_err().to_string();
            assert!(error.contains(&format!("code {wrong} ")), "{error}");
        }
    }
}
