import ArgumentParser
import Sanguine
import SanguineModel

/// `sanguine ask`.
struct AskCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ask",
        abstract: "Ask the server's language model a question, and pay for it.",
        discussion: """
            The first call creates a guest account for this device. The answer is written to \
            standard output, its cost to standard error.
            """
    )

    @Argument(help: "The question.")
    var question: String

    @OptionGroup var options: ClientOptions

    private struct Asked: Encodable {
        var output: String
        var charged: Int64
        var tokensRemaining: Int64
        var held: Int64
        var head: Int64
    }

    func run() async throws {
        try await options.withClient { client in
            let result = try await client.result(of: Ask(question: question))
            if options.json {
                try Output.write(
                    json: Asked(
                        output: result.output,
                        charged: result.charged,
                        tokensRemaining: result.tokensRemaining,
                        held: result.held,
                        head: result.head
                    )
                )
            } else {
                try Output.write(result.output)
                Output.writeError("\(result.charged) charged, \(result.tokensRemaining) left")
            }
        }
    }
}
