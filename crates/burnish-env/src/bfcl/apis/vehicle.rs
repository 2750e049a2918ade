//! A car: engine, doors, climate, brakes, navigation.

use serde_json::{Map, Value, json};

use super::{Api, Given, Num, Outcome, Scenario, number_of, refusal};
use crate::bfcl::random::Random;

const TANK_GALLONS: f64 = 50.0;
const MILES_PER_GALLON: f64 = 20.0;
/// Force of the brake pedal when it is fully pressed, in newtons.
const FULL_FORCE: f64 = 1000.0;
/// What a parking brake says, which has been engaged or released: the slope in degrees.
const SLOPE: f64 = 10.0;

/// The car.
#[derive(Debug, Clone)]
pub(super) struct Vehicle {
    random: Random,
    /// What is compared: numbers, texts, and the doors.
    fields: Map<String, Value>,
    /// In newtons.
    parking_force: Value,
    /// In degrees.
    slope: Value,
    /// In newtons; an integer if the pedal was pressed by one.
    pedal_force: Num,
}

impl Vehicle {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let doors = json!({ "driver": "unlocked", "passenger": "unlocked", "rear_left": "unlocked",
            "rear_right": "unlocked" });
        let defaults = json!({ "fuelLevel": 0.0, "batteryVoltage": 12.6, "doorStatus": doors, "acTemperature": 25.0,
            "fanSpeed": 50, "acMode": "auto", "humidityLevel": 50.0, "headLightStatus": "off",
            "parkingBrakeStatus": "released", "brakePedalStatus": "released", "distanceToNextVehicle": 50.0,
            "cruiseStatus": "inactive", "destination": "None", "frontLeftTirePressure": 32.0,
            "frontRightTirePressure": 32.0, "rearLeftTirePressure": 30.0, "rearRightTirePressure": 30.0 });
        let mut fields = Map::new();
        for (key, default) in defaults.as_object().into_iter().flatten() {
            fields.insert(key.clone(), scenario.get(key, default.clone())?);
        }
        // The state calls it by another name than the scenario does.
        fields.insert("engine_state".to_owned(), json!(scenario.text("engineState", "stopped")?));
        let locked =
            fields["doorStatus"].as_object().into_iter().flatten().filter(|(_, is)| *is == "locked").count();
        fields.insert("remainingUnlockedDoors".to_owned(), json!(4 - locked as i64));
        let pedal_force = Num::of(&scenario.get("brakePedalForce", json!(0.0))?).unwrap_or(Num::Float(0.0));
        Ok(Vehicle {
            random: Random::new(scenario.seed(141_053)?),
            fields,
            parking_force: scenario.get("parkingBrakeForce", json!(0.0))?,
            slope: scenario.get("slopeAngle", json!(0.0))?,
            pedal_force,
        })
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_owned(), value.into());
    }

    /// Fields under the names by which they are told.
    fn told(&self, names: &[(&str, &str)]) -> Value {
        let field = |(name, key): &(&str, &str)| ((*name).to_owned(), self.fields[*key].clone());
        Value::Object(names.iter().map(field).collect())
    }

    fn start(&mut self, mode: &str) -> Outcome {
        if mode == "STOP" {
            self.set("engine_state", "stopped");
        }
        if self.fields["remainingUnlockedDoors"].as_i64() > Some(0) {
            let doors = self.fields["doorStatus"].as_object().into_iter().flatten();
            let open: Vec<&str> =
                doors.filter(|(_, is)| *is == "unlocked").map(|(door, _)| door.as_str()).collect();
            let problem = "All doors must be locked before starting the engine. Here are the unlocked doors";
            return refusal(format!("{problem}: {}", open.join(", ")));
        }
        if self.fields["brakePedalStatus"] != "pressed" {
            return refusal("Brake pedal needs to be pressed when starting the engine.");
        }
        if self.pedal_force.float() != FULL_FORCE {
            return refusal("Must press the brake fully before starting the engine.");
        }
        if number_of(&self.fields, "fuelLevel")?.float() < 0.0 {
            return refusal("Fuel tank is empty.");
        }
        if mode != "START" {
            return refusal("Invalid ignition mode.");
        }
        self.set("engine_state", "running");
        Ok(self.told(&[
            ("engineState", "engine_state"),
            ("fuelLevel", "fuelLevel"),
            ("batteryVoltage", "batteryVoltage"),
        ]))
    }

    fn fill(&mut self, amount: Num) -> Outcome {
        let level = number_of(&self.fields, "fuelLevel")?.plus(amount);
        if amount.float() < 0.0 {
            return refusal("Fuel amount cannot be negative.");
        }
        if level.float() > TANK_GALLONS {
            return refusal("Cannot fill gas above the tank capacity.");
        }
        if level.float() < 0.0 {
            return refusal("Fuel tank is empty. Min fuel level is 0 gallons.");
        }
        self.set("fuelLevel", level.value()?);
        Ok(self.told(&[("fuelLevel", "fuelLevel")]))
    }

    /// Doors before one that there is not are locked all the same.
    fn lock(&mut self, given: &Given<'_>) -> Outcome {
        let status = if given.flag_or("unlock", false)? { "unlocked" } else { "locked" };
        for door in given.texts("door")? {
            let known = self.fields.get_mut("doorStatus").and_then(|doors| doors.get_mut(door));
            let known = known.ok_or_else(|| format!("'{door}'"))?;
            if *known != status {
                *known = json!(status);
                let open = self.fields["remainingUnlockedDoors"].as_i64().unwrap_or(0);
                self.set("remainingUnlockedDoors", open + if status == "locked" { -1 } else { 1 });
            }
        }
        Ok(json!({ "lockStatus": status, "remainingUnlockedDoors": self.fields["remainingUnlockedDoors"] }))
    }

    fn climate(&mut self, given: &Given<'_>) -> Outcome {
        let temperature = given.number("temperature")?;
        let fan = if given.maybe("fanSpeed").is_some() { given.number("fanSpeed")? } else { Num::Int(50) };
        let (unit, mode) = (given.maybe_text("unit")?, given.maybe_text("mode")?.unwrap_or("auto"));
        if !(0.0..=100.0).contains(&fan.float()) {
            return refusal("Fan speed must be between 0 and 100.");
        }
        let celsius = match unit {
            Some("fahrenheit") => Num::Float((temperature.float() - 32.0) * 5.0 / 9.0),
            _ => temperature,
        };
        self.set("acTemperature", celsius.value()?);
        self.set("fanSpeed", fan.value()?);
        self.set("acMode", mode);
        Ok(json!({ "currentACTemperature": temperature.value()?, "climateMode": mode,
            "humidityLevel": self.fields["humidityLevel"] }))
    }

    fn status(&self, option: &str) -> Outcome {
        let names: &[(&str, &str)] = match option {
            "fuel" => &[("fuelLevel", "fuelLevel")],
            "battery" => &[("batteryVoltage", "batteryVoltage")],
            "doors" => &[("doorStatus", "doorStatus")],
            "climate" => &[
                ("currentACTemperature", "acTemperature"),
                ("fanSpeed", "fanSpeed"),
                ("climateMode", "acMode"),
                ("humidityLevel", "humidityLevel"),
            ],
            "headlights" => &[("headlightStatus", "headLightStatus")],
            "engine" => &[("engineState", "engine_state")],
            "parkingBrake" => {
                return Ok(json!({ "parkingBrakeStatus": self.fields["parkingBrakeStatus"],
                    "parkingBrakeForce": self.parking_force, "slopeAngle": self.slope }));
            }
            "brakePedal" => {
                return Ok(json!({ "brakePedalStatus": self.fields["brakePedalStatus"],
                    "brakePedalForce": self.pedal_force.value()? }));
            }
            _ => return refusal("Invalid option"),
        };
        Ok(self.told(names))
    }

    fn park(&mut self, mode: &str) -> Outcome {
        let (status, force) = match mode {
            "engage" => ("engaged", 500.0),
            "release" => ("released", 0.0),
            _ => return refusal("Invalid mode"),
        };
        self.set("parkingBrakeStatus", status);
        (self.parking_force, self.slope) = (json!(force), json!(SLOPE));
        Ok(json!({ "parkingBrakeStatus": status, "_parkingBrakeForce": force, "_slopeAngle": SLOPE }))
    }

    fn press(&mut self, position: Num) -> Outcome {
        if !(0.0..=1.0).contains(&position.float()) {
            return refusal("Pedal position must be between 0 and 1.");
        }
        if position.float() == 0.0 {
            return Ok(self.release());
        }
        self.pedal_force = position.times(Num::Int(FULL_FORCE as i64));
        self.set("brakePedalStatus", "pressed");
        Ok(json!({ "brakePedalStatus": "pressed", "brakePedalForce": self.pedal_force.float() }))
    }

    fn release(&mut self) -> Value {
        self.pedal_force = Num::Float(0.0);
        self.set("brakePedalStatus", "released");
        json!({ "brakePedalStatus": "released", "brakePedalForce": 0.0 })
    }

    fn cruise(&mut self, given: &Given<'_>) -> Outcome {
        let (speed, distance) =
            (given.number("speed")?.float(), given.number("distanceToNextVehicle")?.float());
        let is_active = given.flag_or("activate", false)?;
        if self.fields["engine_state"] == "stopped" {
            return refusal("Start the engine before activating the cruise control.");
        }
        self.set("distanceToNextVehicle", distance);
        if is_active && (!(0.0..=120.0).contains(&speed) || speed % 5.0 != 0.0) {
            return refusal("Invalid speed");
        }
        let status = if is_active { "active" } else { "inactive" };
        self.set("cruiseStatus", status);
        Ok(json!({ "cruiseStatus": status, "currentSpeed": speed, "distanceToNextVehicle": distance }))
    }

    fn tires(&self) -> Outcome {
        const TIRES: [&str; 4] = [
            "frontLeftTirePressure",
            "frontRightTirePressure",
            "rearLeftTirePressure",
            "rearRightTirePressure",
        ];
        let mut told = self.told(&TIRES.map(|tire| (tire, tire)));
        let mut sum = 0.0;
        for tire in TIRES {
            sum += number_of(&self.fields, tire)?.float();
        }
        told["healthy_tire_pressure"] = json!((30.0..=35.0).contains(&(sum / 4.0)));
        told["car_info"] = json!({});
        Ok(told)
    }
}

/// Cities and their zip codes.
const ZIP_CODES: [(&str, &str); 11] = [
    ("Rivermist", "83214"),
    ("Stonebrook", "74532"),
    ("Maplecrest", "56108"),
    ("Silverpine", "62947"),
    ("Shadowridge", "71354"),
    ("Sunset Valley", "83462"),
    ("Oakendale", "47329"),
    ("Willowbend", "52013"),
    ("Crescent Hollow", "69238"),
    ("Autumnville", "51479"),
    ("San Francisco", "94016"),
];

/// Distances between zip codes, in either direction.
const DISTANCES: [(&str, &str, f64); 12] = [
    ("83214", "74532", 750.0),
    ("56108", "62947", 320.0),
    ("71354", "83462", 450.0),
    ("47329", "52013", 290.0),
    ("69238", "51479", 630.0),
    ("94016", "83214", 980.0),
    ("94016", "94704", 600.0),
    ("94704", "08540", 2550.0),
    ("94016", "08540", 1950.0),
    ("62947", "47329", 1053.0),
    ("94016", "62947", 780.0),
    ("74532", "94016", 880.0),
];

fn distance(one: &str, other: &str) -> Outcome {
    let is =
        |(from, to, _): &&(&str, &str, f64)| (*from == one && *to == other) || (*from == other && *to == one);
    match DISTANCES.iter().find(is) {
        Some((.., distance)) => Ok(json!({ "distance": distance })),
        None => refusal("distance not found in database."),
    }
}

impl Api for Vehicle {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        let (text, number) = (|key: &str| given.text(key), |key: &str| given.number(key));
        Some(match method {
            "startEngine" => text("ignitionMode").and_then(|mode| self.start(mode)),
            "fillFuelTank" => number("fuelAmount").and_then(|amount| self.fill(amount)),
            "lockDoors" => self.lock(given),
            "adjustClimateControl" => self.climate(given),
            "get_outside_temperature_from_google" => {
                Ok(json!({ "outsideTemperature": self.random.uniform(-10.0, 40.0) }))
            }
            "get_outside_temperature_from_weather_com" => Ok(json!({ "error": 404 })),
            "setHeadlights" => text("mode").and_then(|mode| match mode {
                "on" | "off" | "auto" => {
                    let status = if mode == "on" { "on" } else { "off" };
                    self.set("headLightStatus", status);
                    Ok(json!({ "headlightStatus": status }))
                }
                _ => refusal("Invalid headlight mode."),
            }),
            "displayCarStatus" => text("option").and_then(|option| self.status(option)),
            "activateParkingBrake" => text("mode").and_then(|mode| self.park(mode)),
            "pressBrakePedal" => number("pedalPosition").and_then(|position| self.press(position)),
            "releaseBrakePedal" => Ok(self.release()),
            "setCruiseControl" => self.cruise(given),
            "get_current_speed" => Ok(json!({ "currentSpeed": self.random.uniform(0.0, 120.0) })),
            "display_log" => given.value("messages").map(|messages| json!({ "log": messages })),
            "estimate_drive_feasibility_by_mileage" => number("distance").and_then(|distance| {
                let fuel = number_of(&self.fields, "fuelLevel")?.float();
                Ok(json!({ "canDrive": fuel * MILES_PER_GALLON >= distance.float() }))
            }),
            "liter_to_gallon" => number("liter")
                .and_then(|liter| Ok(json!({ "gallon": Num::Float(liter.float() * 0.264_172).value()? }))),
            "gallon_to_liter" => number("gallon")
                .and_then(|gallon| Ok(json!({ "liter": Num::Float(gallon.float() * 3.785_41).value()? }))),
            "estimate_distance" => text("cityA").and_then(|one| distance(one, text("cityB")?)),
            "get_zipcode_based_on_city" => text("city").map(|city| {
                let code = ZIP_CODES.iter().find(|(known, _)| *known == city).map(|(_, code)| *code);
                json!({ "zipcode": code.unwrap_or("00000") })
            }),
            "set_navigation" => text("destination").map(|destination| {
                self.set("destination", destination);
                json!({ "status": format!("Navigating to {destination}") })
            }),
            "check_tire_pressure" => self.tires(),
            "find_nearest_tire_shop" => Ok(json!({ "shopLocation": "456 Oakwood Avenue, Rivermist, 83214" })),
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
