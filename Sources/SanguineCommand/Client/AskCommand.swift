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
            standard output, its cost to standard error. In a thread, the server stores the \
            question and the answer, if its function 'ask' keeps history.
            """
    )

    @Argument(help: "The question.")
    var question: String

    @Option(help: "The id of a thread for the question and the answer: a UUID.")
    var thread: String?

    @Flag(help: "Write the answer while it is generated.")
    var stream = false

    @OptionGroup var options: ClientOptions

    private struct Asked: Encodable {
        var output: String
        var charged: Int64
        var tokensRemaining: Int64
        var held: Int64
        var head: Int64
    }

    func validate() throws {
        guard let thread, Identifier(thread) == nil else { return }
        throw ValidationError("Set '--thread' to a UUID, such as that of 'uuidgen'.")
    }

    func run() async throws {
        try await options.withClient { client in
            let result = try await result(client)
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
                try Output.write(stream ? "" : result.output)
                Output.writeError("\(result.charged) charged, \(result.tokensRemaining) left")
            }
        }
    }

    private func result(_ client: SanguineClient) async throws -> FunctionResult<String> {
        let ask = Ask(question: question)
        let thread = thread.flatMap { Identifier($0) }.map { RecordID($0) }
        guard stream else {
            if let thread { return try await client.result(of: ask, in: thread) }
            return try await client.result(of: ask)
        }
        let parts =
            if let thread { try client.stream(ask, in: thread) } else { try client.stream(ask) }
        for try await part in parts where !options.json { try Output.write(Array(part.utf8)) }
        return try await parts.result
    }
}
