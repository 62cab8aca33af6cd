import ArgumentParser
import Sanguine
import SanguineModel

/// `sanguine quota`.
struct QuotaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quota",
        abstract: "Show the daily quotas; offline, the last known ones."
    )

    @OptionGroup var options: ClientOptions

    func run() async throws {
        try await options.withClient(retries: false) { client in
            let failure = await LastKnown.refresh(.quotas, of: client)
            let state = client.snapshot(of: .quotas)
            guard let quotas = state.value else { throw LastKnown.nothing(failure) }
            if options.json {
                try Output.write(json: quotas)
            } else {
                for quota in quotas {
                    let left =
                        quota.remaining.map { "\($0) of \(quota.limit) left" } ?? "unlimited"
                    try Output.write("\(quota.name)  \(left), resets \(quota.resetsAt)")
                }
            }
            guard let failure else { return }
            let age = LastKnown.age(of: state)
            Output.writeError("As of \(age.spoken) ago. \(failure)")
        }
    }
}
