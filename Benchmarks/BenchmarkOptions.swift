import ArgumentParser

/// The options of the benchmarks.
///
/// Unknown options are refused.
struct BenchmarkOptions: ParsableArguments {
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case http, client, memory, live, habits, abuse, functions, litellm, images, load, size
    }

    @Option(help: "Run this part only.") var only: Part?
    @Option(help: "Measure only the client's figures whose names contain this text.")
    var figure: String?
    @Option(help: "Run only the attacks whose names contain this text.")
    var attack: String?
    @Option(help: "The simultaneous connections.") var connections = 128
    @Option(help: "The records of the account that a new device restores.") var records = 100_000
    @Option(help: "The users of the load test.") var users = 200
    @Option(help: "The records of the large collection.") var rows = 1_000_000
    @Flag(help: "Measure for half a second instead of two.") var quick = false

    /// The options of this process.
    static let current = parseOrExit()

    /// Whether the part is selected.
    func includes(_ part: Part) -> Bool {
        if figure != nil { return part == .client }
        return attack == nil ? only ?? part == part : part == .abuse
    }

    func validate() throws {
        guard connections > 0 else {
            throw ValidationError("Set '--connections' to a positive number.")
        }
        guard (1...20_000).contains(users) else {
            throw ValidationError("Set '--users' to 1 to 20000.")
        }
        // An account has at most 200,000 records, and there are ten accounts.
        guard (20_000...1_500_000).contains(rows) else {
            throw ValidationError("Set '--rows' to 20000 to 1500000.")
        }
        guard records > 0 else {
            throw ValidationError("Set '--records' to a positive number.")
        }
        guard figure == nil || only ?? .client == .client else {
            throw ValidationError("Remove '--only': '--figure' selects figures of the client.")
        }
        guard attack == nil || only ?? .abuse == .abuse && figure == nil else {
            throw ValidationError("Remove '--only' and '--figure': '--attack' is for one part.")
        }
    }
}
