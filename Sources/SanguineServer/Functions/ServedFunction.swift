import SanguineAuthority
import SanguineModel

/// A function that is served: how its input is read, what it can cost, and what runs it.
struct ServedFunction: Sendable {
    /// Milliseconds that `echo` may be asked to wait.
    static let echoDelay = 0...60_000
    /// Bytes of a text that is asked or echoed.
    static let textBytes = 1...65_536

    let setting: FunctionSetting
    let pricing: Pricing

    init(_ setting: FunctionSetting) {
        self.setting = setting
        pricing = Pricing(price: setting.price, maxOutputTokens: Int64(setting.maxOutputTokens))
    }

    /// A call whose input was read and found valid.
    struct Prepared: Sendable {
        enum Work: Sendable {
            case echo(String, delay: Duration)
            case upstream(UpstreamPrompt)
        }

        var work: Work
        /// Bytes of what is sent upstream; zero for what is not.
        var promptBytes: Int
    }

    var description: FunctionDescription {
        let inputs =
            switch setting.kind {
            case .echo: ["text": "string", "delayMs?": "integer"]
            case .upstream: ["question": "string"]
            }
        return FunctionDescription(
            name: setting.name,
            price: setting.price,
            cache: "none",
            stream: false,
            inputs: inputs
        )
    }

    /// Reads the input.
    ///
    /// - Throws: `invalid_content`, naming the member and what it takes.
    func prepare(_ input: JSONValue) throws(Problem) -> Prepared {
        switch setting.kind {
        case .echo:
            let text = try self.text("text", of: input)
            let delay = input["delayMs"] ?? 0
            guard let milliseconds = delay.integer.flatMap(Int.init(exactly:)),
                Self.echoDelay.contains(milliseconds)
            else {
                throw Problem(
                    .invalidContent,
                    "Set 'input.delayMs' to 0 to \(Self.echoDelay.upperBound) milliseconds."
                )
            }
            return Prepared(work: .echo(text, delay: .milliseconds(milliseconds)), promptBytes: 0)
        case .upstream:
            let question = try text("question", of: input)
            var messages: [UpstreamPrompt.Message] = []
            if let system = setting.systemPrompt { messages.append(.init(.system, system)) }
            messages.append(.init(.user, question))
            return Prepared(
                work: .upstream(
                    UpstreamPrompt(messages: messages, maxOutputTokens: setting.maxOutputTokens)
                ),
                promptBytes: messages.reduce(0) { $0 + $1.content.utf8.count }
            )
        }
    }

    private func text(_ name: String, of input: JSONValue) throws(Problem) -> String {
        guard let text = input[name]?.string, Self.textBytes.contains(text.utf8.count) else {
            throw Problem(
                .invalidContent,
                "Set 'input.\(name)' to a text of 1 to \(Self.textBytes.upperBound) bytes."
            )
        }
        return text
    }
}
