import ArgumentParser
import Foundation

/// The arguments that make up the plan of a run, from flags and a scenario file.
struct LoadOptions: ParsableArguments {
    @Option(help: "A YAML or JSON file with a scenario; flags take precedence.")
    var scenario: String?

    @Option(help: "The number of users. Default: 100.")
    var users: String?

    @Option(help: "The users that arrive per second after the ramp. Default: 20.")
    var rate: String?

    @Option(help: "The time in which the rate rises from 0. Default: 5s.")
    var ramp: String?

    @Option(help: "The time in which requests start, at most 10m. Default: 30s.")
    var duration: String?

    @Option(help: "The pause before each step: 2s, or a range such as 1s..5s, the default.")
    var think: String?

    @Option(help: "The seed of pauses and chances; the same one repeats a run. Default: 1.")
    var seed: String?

    @Option(
        name: .customLong("step"),
        help: """
            A step as NAME:WEIGHT or NAME:WEIGHT:once; repeat it for each. Steps: feed, page, \
            like, post, live, ask, and the scenario's requests.
            """
    )
    var steps: [String] = []

    @Option(help: "The time after which a request has failed. Default: 30s.")
    var timeout: String?

    @Option(help: "The collection of feed, page and post. Default: posts.")
    var collection: String?

    @Option(help: "The collection of likes, whose member 'post' names a post. Default: notes.")
    var likes: String?

    @Option(help: "The function of ask, with the input 'text'. Default: echo.")
    var function: String?

    @Option(help: "The records of a page. Default: 20.")
    var pageSize: String?

    /// The arguments by their names in a scenario.
    private var flags: [String: String] {
        [
            "users": users, "rate": rate, "ramp": ramp, "duration": duration, "think": think,
            "seed": seed, "timeout": timeout, "collection": collection, "likes": likes,
            "function": function, "pageSize": pageSize,
        ].compactMapValues(\.self)
    }

    /// Returns the plan.
    ///
    /// - Throws: `ValidationError` for values that are wrong.
    func plan() async throws -> LoadPlan {
        var values: [String: String] = [:]
        var texts = steps
        var requests: [String: LoadRequest] = [:]
        if let scenario {
            let file = try await LoadScenario.read(scenario)
            (values, requests) = (file.values, file.requests)
            if texts.isEmpty { texts = file.steps }
        }
        values.merge(flags) { $1 }
        do {
            return try LoadScenario.plan(values, steps: texts, requests: requests)
        } catch {
            throw ValidationError("\(error)")
        }
    }
}

/// A file with the arguments of a run.
///
/// ```yaml
/// users: 1000
/// rate: 50
/// steps: [feed, "page:2", "profile:0.1"]
/// requests:
///   profile:
///     method: GET
///     path: /v1/account
/// ```
struct LoadScenario {
    private static let names: Set<String> = [
        "users", "rate", "ramp", "duration", "think", "seed", "timeout", "collection", "likes",
        "function", "pageSize",
    ]

    var values: [String: String] = [:]
    var steps: [String] = []
    var requests: [String: LoadRequest] = [:]

    /// Reads a file in YAML, of which JSON is a part.
    ///
    /// - Throws: `ValidationError` if it cannot be read or has an unknown name.
    static func read(_ path: String) async throws -> LoadScenario {
        let file: SettingsFile?
        do { file = try await SettingsFile.read(at: path) } catch {
            throw ValidationError("\(error)")
        }
        guard let file else { throw ValidationError("The scenario '\(path)' is empty.") }
        var scenario = LoadScenario()
        for key in file.keys {
            if key == ["steps"] {
                scenario.steps = (file.list(of: key) ?? "").split(separator: ",").map {
                    $0.trimmingCharacters(in: .whitespaces)
                }
            } else if key.count == 1, names.contains(key[0]), let text = file.text(of: key) {
                scenario.values[key[0]] = text
            } else if key.count == 3, key[0] == "requests", let text = file.text(of: key) {
                var request =
                    scenario.requests[key[1]]
                    ?? LoadRequest(method: "GET", path: "", body: nil)
                switch key[2] {
                case "method": request.method = text
                case "path": request.path = text
                case "body": request.body = text
                default: throw unknown(key, path)
                }
                scenario.requests[key[1]] = request
            } else {
                throw unknown(key, path)
            }
        }
        return scenario
    }

    private static func unknown(_ key: [String], _ path: String) -> ValidationError {
        ValidationError(
            """
            '\(key.joined(separator: "."))' in \(path) is not a name of a scenario, or has no \
            value. Use steps, requests.NAME.method, .path or .body, or one of \
            \(names.sorted().joined(separator: ", ")).
            """
        )
    }

    /// Builds a plan.
    ///
    /// - Parameters:
    ///   - values: The texts of the arguments by name.
    ///   - steps: The texts of the steps; the default ones if there are none.
    ///   - requests: The declared requests by name.
    /// - Returns: A plan without a ``LoadPlan/problem``.
    /// - Throws: ``Failure`` that names the wrong value.
    static func plan(
        _ values: [String: String],
        steps: [String] = [],
        requests: [String: LoadRequest] = [:]
    ) throws(Failure) -> LoadPlan {
        var plan = LoadPlan()
        plan.requests = requests
        if !steps.isEmpty {
            plan.steps = []
            for text in steps { plan.steps.append(try LoadStep(parsing: text)) }
        }
        for (name, text) in values.sorted(by: { $0.key < $1.key }) {
            guard set(name, to: text, in: &plan) else {
                throw Failure("'\(text)' is not a value of '\(name)'. See 'sanguine help load'.")
            }
        }
        if let problem = plan.problem { throw Failure(problem) }
        return plan
    }

    private static func set(_ name: String, to text: String, in plan: inout LoadPlan) -> Bool {
        func put<Value>(_ path: WritableKeyPath<LoadPlan, Value>, _ value: Value?) -> Bool {
            guard let value else { return false }
            plan[keyPath: path] = value
            return true
        }
        return switch name {
        case "users": put(\.users, Int(text))
        case "rate": put(\.rate, Double(text))
        case "ramp": put(\.ramp, duration(text))
        case "duration": put(\.duration, duration(text))
        case "think": put(\.think, range(text))
        case "seed": put(\.seed, UInt64(text))
        case "timeout": put(\.timeout, duration(text))
        case "collection": put(\.collection, text)
        case "likes": put(\.likes, text)
        case "function": put(\.function, text)
        case "pageSize": put(\.pageSize, Int(text))
        default: false
        }
    }

    private static func range(_ text: String) -> ClosedRange<Duration>? {
        let parts = text.components(separatedBy: "..")
        guard parts.count <= 2, let lower = parts.first.flatMap({ duration($0) }),
            let upper = parts.last.flatMap({ duration($0) }), lower <= upper
        else { return nil }
        return lower...upper
    }

    /// Parses a whole number with the unit `ms`, `s` or `m`.
    static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int64(digits), digits.count <= 9 else { return nil }
        return switch text.dropFirst(digits.count) {
        case "ms": .milliseconds(number)
        case "s": .seconds(number)
        case "m": .seconds(60 * number)
        default: nil
        }
    }
}

extension LoadPlan {
    /// The flags that repeat the plan, except for a scenario's requests, which are in its file.
    var arguments: [String] {
        func text(_ duration: Duration) -> String {
            "\(Int64((duration / .milliseconds(1)).rounded()))ms"
        }
        return [
            "--users", "\(users)", "--rate", "\(rate)", "--ramp", text(ramp),
            "--duration", text(duration),
            "--think", "\(text(think.lowerBound))..\(text(think.upperBound))",
            "--seed", "\(seed)", "--timeout", text(timeout), "--collection", collection,
            "--likes", likes, "--function", function, "--page-size", "\(pageSize)",
        ] + steps.flatMap { ["--step", $0.description] }
    }
}
