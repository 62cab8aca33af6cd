import Logging
import SanguineAuthority
import SanguineModel

/// A function that is served: how its input is read, what it can cost, and what runs it.
struct ServedFunction: MeteredFunction {
    /// Milliseconds that `echo` may be asked to wait.
    static let echoDelay = 0...60_000
    /// Bytes of a text that is asked or echoed.
    static let textBytes = 1...65_536

    private let setting: FunctionSetting
    private let pricing: Pricing
    private let upstream: UpstreamClient?
    private let upstreamTimeout: Duration
    private let delay: any Clock<Duration>
    private let logger: Logger

    init(
        _ setting: FunctionSetting,
        upstream: UpstreamClient?,
        upstreamTimeout: Duration,
        delay: any Clock<Duration>,
        logger: Logger
    ) {
        self.setting = setting
        self.upstream = upstream
        self.upstreamTimeout = upstreamTimeout
        self.delay = delay
        self.logger = logger
        pricing = Pricing(price: setting.price, maxOutputTokens: Int64(setting.maxOutputTokens))
    }

    var name: String { setting.name }

    var rules: FunctionRules { FunctionRules(price: setting.price) }

    var inputs: [String: String] {
        switch setting.kind {
        case .echo: ["text": "string", "delayMs?": "integer"]
        case .upstream: ["question": "string"]
        }
    }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        switch setting.kind {
        case .echo: try prepareEcho(input.value)
        case .upstream: try prepareQuestion(input.value)
        }
    }

    private func prepareEcho(_ input: JSONValue) throws(Problem) -> PreparedCall {
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
        let price = pricing.most(promptBytes: 0)
        return PreparedCall(
            input: input,
            hold: price,
            guess: pricing.guess(promptBytes: 0),
            life: .milliseconds(2 * Self.echoDelay.upperBound),
            isSent: false,
            chargeWhenCut: { _ in price }
        ) { [clock = self.delay] context in
            if milliseconds > 0 { try? await clock.sleep(for: .milliseconds(milliseconds)) }
            await context.write(text)
            return PreparedCall.Outcome(output: .string(text), charge: price)
        }
    }

    private func prepareQuestion(_ input: JSONValue) throws(Problem) -> PreparedCall {
        let question = try text("question", of: input)
        var messages: [UpstreamPrompt.Message] = []
        if let system = setting.systemPrompt { messages.append(.init(.system, system)) }
        messages.append(.init(.user, question))
        let prompt = UpstreamPrompt(
            messages: messages,
            maxOutputTokens: setting.maxOutputTokens
        )
        let bytes = messages.reduce(0) { $0 + $1.textBytes }
        return PreparedCall(
            input: input,
            hold: pricing.most(promptBytes: bytes),
            guess: pricing.guess(promptBytes: bytes),
            life: upstreamTimeout + .seconds(60),
            isSent: true,
            unavailable: upstream == nil ? .upstreamMissing : nil,
            chargeWhenCut: { [pricing] in pricing.chargeWhenCut($0, promptBytes: bytes) }
        ) { _ async throws(Problem) in
            try await complete(prompt, bytes)
        }
    }

    private func complete(
        _ prompt: UpstreamPrompt,
        _ promptBytes: Int
    ) async throws(Problem) -> PreparedCall.Outcome {
        guard let upstream else { throw .upstreamMissing }
        do {
            let answer = try await upstream.complete(prompt)
            let charge = pricing.charge(
                answer.usage.map {
                    Usage(inputTokens: $0.promptTokens, outputTokens: $0.completionTokens)
                },
                promptBytes: promptBytes,
                answerBytes: answer.text.utf8.count
            )
            return PreparedCall.Outcome(output: .string(answer.text), charge: charge)
        } catch {
            logger.warning("The upstream failed", metadata: ["reason": "\(error)"])
            throw Problem(upstream: error)
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

extension Problem {
    fileprivate static var upstreamMissing: Problem {
        Problem(
            .upstreamMissing,
            "Ask the operator to set SANGUINE_UPSTREAM_URL.",
            retryAfter: 60
        )
    }

    /// What a client is told of an upstream that failed: nothing of its answer.
    fileprivate init(upstream error: UpstreamError) {
        if case .timeout = error {
            self = .upstreamTooSlow
        } else {
            self = .upstreamFailed
        }
    }
}
