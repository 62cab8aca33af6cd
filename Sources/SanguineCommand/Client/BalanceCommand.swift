import ArgumentParser
import Sanguine
import SanguineModel

/// `sanguine balance`.
struct BalanceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "balance",
        abstract: "Show the available balance; offline, the last known one and its age."
    )

    @OptionGroup var options: ClientOptions

    private struct Shown: Encodable {
        var unit: String
        var available: Int64
        var held: Int64
        var head: Int64
        var ageSeconds: Int
        var error: String?
    }

    func run() async throws {
        try await options.withClient(retries: false) { client in
            let failure = await LastKnown.refresh(.balance, of: client)
            let state = client.snapshot(of: .balance)
            guard let balance = state.value else { throw LastKnown.nothing(failure) }
            let age = LastKnown.age(of: state)
            if options.json {
                try Output.write(
                    json: Shown(
                        unit: balance.unit,
                        available: balance.available,
                        held: balance.held,
                        head: balance.head,
                        ageSeconds: Int(age.components.seconds),
                        error: failure?.code
                    )
                )
                return
            }
            let held = balance.held > 0 ? ", \(balance.held) held" : ""
            let note = failure == nil ? "" : "  (as of \(age.spoken) ago)"
            try Output.write("\(balance.available) \(balance.unit)\(held)\(note)")
            if let failure { Output.writeError("\(failure)") }
        }
    }
}

/// Shared behaviour of commands that can show their last value when the server is unreachable.
enum LastKnown {
    /// The longest time to wait for the server before the last value is shown.
    static let patience = Duration.seconds(2)

    /// Fetches the query's value.
    ///
    /// Returns the error if this failed, or `nil`.
    static func refresh<Value>(
        _ query: ValueQuery<Value>,
        of client: SanguineClient,
        delay: any Clock<Duration> = ContinuousClock()
    ) async -> SanguineError? {
        await attempt(delay: delay) {
            do throws(SanguineError) {
                _ = try await client.refresh(query)
                return nil
            } catch {
                return error
            }
        }
    }

    /// Performs an operation that needs the server, with a time limit.
    ///
    /// Returns the error if this failed, or `nil`.
    static func attempt(
        delay: any Clock<Duration> = ContinuousClock(),
        _ body: @escaping @Sendable () async -> SanguineError?
    ) async -> SanguineError? {
        await withTaskGroup(of: SanguineError?.self) { group in
            group.addTask { await body() }
            group.addTask {
                try? await delay.sleep(for: patience)
                return .transport(.timedOut)
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// Returns the time since the value was fetched, zero without a value.
    static func age<Value>(
        of state: ValueSnapshot<Value>,
        clock: any WallClock = SystemWallClock()
    ) -> Duration {
        state.age(at: clock.now()) ?? .zero
    }

    /// Returns the error of a command that has no value to show.
    static func nothing(_ failure: SanguineError?) -> Failure {
        Failure(failure.map { "\($0)" } ?? "No value is known. Try again when the server runs.")
    }
}
