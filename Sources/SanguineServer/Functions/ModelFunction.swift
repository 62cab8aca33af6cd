import Logging
import SanguineAuthority
import SanguineModel
import Synchronization

/// A function that asks a language model: by a template of the settings, or by a prompt in code.
struct ModelFunction: MeteredFunction {
    /// A call's input, read: the part of it that is heeded, and what the model is asked.
    struct Question: Sendable {
        var input: JSONValue
        var prompt: Prompt
    }

    let name: String
    let rules: FunctionRules
    let inputs: [String: String]
    /// Whom it asks, how much, and for how long.
    let model: ModelCall
    /// Reads the input.
    let read: @Sendable (JSONValue) throws(Problem) -> Question
    /// Makes the output of what the model said.
    let output: @Sendable (String) throws(Problem) -> JSONValue

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let question = try read(input.value)
        let messages = question.prompt.messages
        let files = input.attachments
        let size = PromptSize(bytes: question.prompt.bytes, attachments: files.count)
        let pricing = Pricing(
            price: rules.price,
            maxOutputTokens: Int64(model.maxOutputTokens),
            attachmentTokens: rules.attachments?.tokens ?? 0
        )
        let timeout = rules.limits.timeout ?? model.timeout
        return PreparedCall(
            input: question.input,
            hold: pricing.most(size),
            guess: pricing.guess(size),
            life: timeout + .seconds(60),
            isSent: true,
            unavailable: model.unavailable,
            chargeWhenCut: { pricing.chargeWhenCut($0, size) }
        ) { context async throws(Problem) in
            let shown = try await messages.showing(files, context)
            let answer = try await model.answer(
                .prompt(model.request(shown)),
                within: timeout,
                context
            ) { $0.text }
            return PreparedCall.Outcome(
                output: try output(answer.text),
                charge: answer.charge(pricing, size)
            )
        }
    }
}

extension ModelFunction {
    /// A function of the settings.
    init(_ setting: FunctionSetting, _ model: ModelCall) {
        let members = setting.inputs
        let prompt = PromptTemplate(setting.prompt)
        let system = setting.systemPrompt.map { PromptTemplate($0) }
        self.init(
            name: setting.name,
            rules: setting.rules,
            inputs: members.listed,
            model: model,
            read: { input throws(Problem) in
                let values = try members.read(input)
                let text = prompt.filled(with: values)
                return Question(
                    input: .object(values),
                    prompt: Prompt(system: system?.filled(with: values), text)
                )
            },
            output: { .string($0) }
        )
    }
}

/// What bounds the tokens of a prompt.
struct PromptSize: Hashable, Sendable {
    /// Bytes of its text.
    var bytes: Int
    /// How many files go with it.
    var attachments = 0
}

extension Pricing {
    func most(_ size: PromptSize) -> Int64 {
        most(promptBytes: size.bytes, attachments: size.attachments)
    }

    func guess(_ size: PromptSize) -> Int64 {
        guess(promptBytes: size.bytes, attachments: size.attachments)
    }

    func chargeWhenCut(_ progress: CallProgress, _ size: PromptSize) -> Int64 {
        chargeWhenCut(progress, promptBytes: size.bytes, attachments: size.attachments)
    }
}

extension [UpstreamPrompt.Message] {
    /// The same turns, the last one of the user with the files of the call: pictures to be seen,
    /// all else as it is.
    fileprivate func showing(
        _ files: [BlobFacts],
        _ context: CallContext
    ) async throws(Problem) -> [UpstreamPrompt.Message] {
        guard !files.isEmpty else { return self }
        var turns = self
        let place = turns.lastIndex { $0.role == .user }
        var parts: [UpstreamPrompt.Message.Part] = []
        for file in files {
            let bytes = try await context.attachment(file)
            let isPicture = file.type.hasPrefix("image/")
            let ending = file.type.split(separator: "/").last.map { String($0) } ?? "bin"
            parts.append(
                isPicture
                    ? .image(type: file.type, bytes: bytes)
                    : .file(name: "\(file.id.prefix(8)).\(ending)", type: file.type, bytes: bytes)
            )
        }
        if let place { turns[place].content += parts } else { turns.append(.init(.user, parts)) }
        return turns
    }
}

/// How a function asks language models.
struct ModelCall: Sendable {
    /// The models; `nil` if there is none.
    let upstreams: Upstreams?
    /// Which of them, in order; all if empty.
    let names: [String]
    /// The model that is asked for; that of the upstream if `nil`.
    let model: String?
    /// The longest answer.
    let maxOutputTokens: Int
    /// How long a call may take, fall-backs included.
    let timeout: Duration
    let logger: Logger

    /// What came of a request.
    struct Answered: Sendable {
        var answer: UpstreamAnswer
        /// What was streamed.
        var progress: CallProgress
        var isStreamed: Bool

        var text: String { answer.text }

        /// What it costs.
        ///
        /// A stream whose last frame says nothing of usage costs the larger of what was measured
        /// and what is certain; an answer in one piece that says nothing, what it can cost at most.
        func charge(_ pricing: Pricing, _ size: PromptSize) -> Int64 {
            let usage = answer.usage.map {
                Usage(inputTokens: $0.promptTokens, outputTokens: $0.completionTokens)
            }
            guard isStreamed, usage == nil else {
                return pricing.charge(
                    usage,
                    promptBytes: size.bytes,
                    attachments: size.attachments,
                    answerBytes: answer.text.utf8.count
                )
            }
            return pricing.chargeWhenCut(progress, size)
        }
    }

    /// Why nothing can be asked now; `nil` if something can.
    var unavailable: Problem? {
        guard let upstreams else { return .upstreamMissing }
        return upstreams.unavailable(names)
    }

    func request(_ messages: [UpstreamPrompt.Message]) -> UpstreamPrompt {
        UpstreamPrompt(messages: messages, maxOutputTokens: maxOutputTokens, model: model)
    }

    /// Asks, and gives on what comes.
    ///
    /// - Parameters:
    ///   - request: What is asked.
    ///   - timeout: How long it may take.
    ///   - context: Where parts go, if somebody follows them.
    ///   - isCallersOwn: Whether the caller has written the request: what the upstream does not
    ///     take of it is the caller's to change, then. Default: no.
    ///   - part: What of an event is a part of the answer; an empty one is none.
    /// - Returns: What came, and what was streamed of it.
    /// - Throws: `upstream_failed`, `upstream_timeout`, `upstream_missing`.
    func answer(
        _ request: UpstreamRequest,
        within timeout: Duration,
        _ context: CallContext,
        isCallersOwn: Bool = false,
        part: @escaping @Sendable (UpstreamEvent) -> String
    ) async throws(Problem) -> Answered {
        guard let upstreams else { throw .upstreamMissing }
        let progress = Mutex(CallProgress())
        do throws(UpstreamError) {
            let answer = try await upstreams.answer(
                request,
                among: names,
                within: timeout,
                streamed: context.isStreamed
            ) { event in
                if let usage = event.usage.map({
                    Usage(inputTokens: $0.promptTokens, outputTokens: $0.completionTokens)
                }) {
                    progress.withLock { $0.usage = usage }
                    context.report(usage)
                }
                let bytes = event.text.utf8.count
                progress.withLock { $0.add(bytes: bytes) }
                await context.write(part(event), bytes)
            }
            return Answered(
                answer: answer,
                progress: progress.withLock { $0 },
                isStreamed: context.isStreamed
            )
        } catch {
            logger.warning("The upstream failed", metadata: ["reason": "\(error)"])
            if isCallersOwn, case .refused(let status, _) = error,
                [400, 413, 422].contains(status)
            {
                throw Problem(
                    .invalidContent,
                    "Change the request, and send it anew: the language model refuses it."
                )
            }
            throw Problem(upstream: error)
        }
    }
}

/// What a language model is asked by a function.
///
/// ```swift
/// let prompt: Prompt = "Translate into \(input.to): \(input.text)"
/// ```
public struct Prompt: Hashable, Sendable, ExpressibleByStringInterpolation {
    /// The turns, oldest first.
    public var messages: [UpstreamPrompt.Message]

    /// Creates a prompt of these turns.
    public init(messages: [UpstreamPrompt.Message]) { self.messages = messages }

    /// Creates a prompt of one turn, and what the model is told before.
    public init(system: String? = nil, _ text: String) {
        messages = (system.map { [.init(.system, $0)] } ?? []) + [.init(.user, text)]
    }

    /// Creates a prompt of one turn.
    public init(stringLiteral value: String) { self.init(value) }

    /// Bytes of the text, which bound its tokens.
    var bytes: Int { messages.reduce(0) { $0 + $1.textBytes } }
}

extension Problem {
    static var upstreamMissing: Problem {
        Problem(
            .upstreamMissing,
            "Ask the operator to set SANGUINE_UPSTREAM_URL.",
            retryAfter: 60
        )
    }

    /// What a client is told of an upstream that failed: nothing of its answer.
    fileprivate init(upstream error: UpstreamError) {
        switch error {
        case .timeout: self = .upstreamTooSlow
        case .refused(_, let seconds?):
            self = .upstreamFailed
            retryAfter = max(1, min(seconds, CallRunner.longestRetryAfter))
        default: self = .upstreamFailed
        }
    }
}
