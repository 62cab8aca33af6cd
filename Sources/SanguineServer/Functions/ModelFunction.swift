import Logging
import SanguineAuthority
import SanguineModel
import Synchronization

/// A function that asks a language model, with a template of the settings or a prompt in code.
struct ModelFunction: MeteredFunction {
    /// A call's decoded input: the members that the function uses, and the prompt.
    struct Question: Sendable {
        var input: JSONValue
        var prompt: Prompt
    }

    let name: String
    let rules: FunctionRules
    let inputs: [String: String]
    /// The models that it asks, and the limits of a call.
    let model: ModelCall
    /// Reads a call's input, and the account's settings on which the answer depends.
    let read: @Sendable (FunctionInput) throws(Problem) -> Question
    /// Converts the model's answer to the output.
    let output: @Sendable (String) throws(Problem) -> JSONValue

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let question = try read(input)
        let prompt = question.prompt.continuing(input.history)
        let files = input.attachments
        var call = model.prepared(
            question.input,
            rules,
            PromptSize(bytes: prompt.bytes, attachments: pictures(of: files)),
            maxOutputTokens: model.maxOutputTokens,
            request: { context async throws(Problem) in
                .prompt(model.request(try await prompt.messages.showing(files, context)))
            },
            output: { answer throws(Problem) in try output(answer.text) }
        )
        if rules.cache.lifetime != .none {
            call.question = model.fingerprint(of: rules.sameness == .prompt ? prompt : nil)
        }
        return call
    }

    /// Returns the maximum number of images for the model; a video may be converted to several.
    private func pictures(of files: [BlobFacts]) -> Int {
        let ofVideo = model.upstreams.picturesOfVideo(model.names)
        return files.reduce(0) { $0 + (FrameSampler.isVideo($1.type) ? ofVideo : 1) }
    }
}

extension ModelFunction {
    /// Creates a function from the settings.
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
                let values = try members.read(input.value)
                let facts = input.settings.map { (PromptTemplate.settings + $0.key, $0.value) }
                let all = values.merging(facts) { value, _ in value }
                return Question(
                    input: .object(values),
                    prompt: Prompt(system: system?.filled(with: all), prompt.filled(with: all))
                )
            },
            output: { .string($0) }
        )
    }
}

/// The values that limit the number of tokens of a prompt.
struct PromptSize: Hashable, Sendable {
    /// The size of its text in bytes.
    var bytes: Int
    /// The number of attached files; a video counts as the images it may be converted to.
    var attachments = 0
}

extension Pricing {
    func most(_ size: PromptSize) -> Int64 {
        most(promptBytes: size.bytes, attachments: size.attachments)
    }

    func guess(_ size: PromptSize) -> Int64 {
        guess(promptBytes: size.bytes, attachments: size.attachments)
    }

    func charge(_ progress: RunProgress, _ size: PromptSize) -> Int64 {
        charge(progress, promptBytes: size.bytes, attachments: size.attachments)
    }
}

extension [UpstreamPrompt.Message] {
    /// Returns the same turns with the call's files in the user's last turn: images as images,
    /// other files unchanged.
    fileprivate func showing(
        _ files: [BlobFacts],
        _ context: CallContext
    ) async throws(Problem) -> [UpstreamPrompt.Message] {
        guard !files.isEmpty else { return self }
        var turns = self
        let index = turns.lastIndex { $0.role == .user }
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
        if let index { turns[index].content += parts } else { turns.append(.init(.user, parts)) }
        return turns
    }
}

/// The models that a function asks, and the limits of a call.
struct ModelCall: Sendable {
    /// All configured models.
    let upstreams: Upstreams
    /// The names of the models to ask, in order; all if empty.
    let names: [String]
    /// The requested model; the default of the upstream if `nil`.
    let model: String?
    /// The maximum length of an answer in tokens.
    let maxOutputTokens: Int
    /// The time limit of a call that is not streamed, including fallbacks.
    let timeout: Duration
    /// The time limit of a streamed answer; no pause in it may exceed `timeout`.
    let streamTimeout: Duration
    let logger: Logger

    /// The result of a request.
    private struct Answered {
        var answer: UpstreamAnswer
        /// The generated output and reported usage.
        var progress: RunProgress
    }

    /// Prepares a call of a function that asks a model.
    ///
    /// - Parameters:
    ///   - input: The members of the input that the function uses.
    ///   - rules: The declared rules of the function.
    ///   - size: The size of the prompt, which limits its tokens.
    ///   - most: The maximum length of the answer in tokens.
    ///   - part: Returns the part of the answer that an event contains, or an empty string for no
    ///     part. Default: the event's text.
    ///   - request: Creates the request.
    ///   - output: Converts the answer to the output.
    ///   - written: Returns the encoded output. Default: `nil`, which encodes the output.
    /// - Returns: The call, including the amount it holds.
    func prepared(
        _ input: JSONValue,
        _ rules: FunctionRules,
        _ size: PromptSize,
        maxOutputTokens most: Int,
        part: @escaping @Sendable (UpstreamEvent) -> String = { $0.text },
        request: @escaping @Sendable (CallContext) async throws(Problem) -> UpstreamRequest,
        output: @escaping @Sendable (UpstreamAnswer) throws(Problem) -> JSONValue,
        written: @escaping @Sendable (UpstreamAnswer) -> [UInt8]? = { _ in nil }
    ) -> PreparedCall {
        let pricing = Pricing(
            price: rules.price,
            maxOutputTokens: Int64(most),
            attachmentTokens: rules.attachments?.tokens ?? 0
        )
        let timeout = rules.limits.timeout ?? timeout
        var call = PreparedCall(
            input: input,
            hold: pricing.most(size),
            guess: pricing.guess(size),
            life: timeout + .seconds(60),
            isSent: true,
            unavailable: upstreams.unavailable(names),
            chargeWhenCut: { pricing.charge($0, size) }
        ) { context async throws(Problem) in
            let answered = try await answer(
                try await request(context),
                within: timeout,
                context,
                part: part
            )
            return PreparedCall.Outcome(
                output: try output(answered.answer),
                written: written(answered.answer),
                charge: pricing.charge(answered.progress, size),
                finishReason: answered.answer.finishReason
            )
        }
        call.unavailableFor = { [upstreams, names] in upstreams.unavailable(names, for: $0) }
        call.streamedLife = max(timeout, streamTimeout) + .seconds(60)
        return call
    }

    func request(_ messages: [UpstreamPrompt.Message]) -> UpstreamPrompt {
        UpstreamPrompt(messages: messages, maxOutputTokens: maxOutputTokens, model: model)
    }

    /// Sends the request and forwards its events.
    ///
    /// - Throws: `upstream_failed`, `upstream_timeout`, `overloaded`; `upstream_refused` for an
    ///   error that the caller caused, and `invalid_content` for a video from which no images can
    ///   be extracted.
    private func answer(
        _ request: UpstreamRequest,
        within timeout: Duration,
        _ context: CallContext,
        part: @escaping @Sendable (UpstreamEvent) -> String
    ) async throws(Problem) -> Answered {
        let progress = Mutex(RunProgress())
        do throws(UpstreamError) {
            let answer = try await upstreams.answer(
                request,
                among: names,
                for: context.caller,
                within: context.isStreamed ? max(timeout, streamTimeout) : timeout,
                silence: timeout,
                streamed: context.isStreamed,
                onAttempt: context.asks
            ) { event in
                let made = progress.withLock { progress in
                    progress.record(event)
                    return progress
                }
                context.report(made)
                await context.write(event.isCutOff ? "" : part(event), 0)
            }
            return Answered(
                answer: answer,
                progress: progress.withLock { progress in
                    if !context.isStreamed { progress.record(answer) }
                    return progress
                }
            )
        } catch {
            if !error.mayHaveBeenSent { context.askedNobody() }
            // Each attempt is logged with its upstream.
            switch error {
            case .unavailable, .videoUnreadable, .noFrames:
                logger.warning("The call was not sent to any upstream", metadata: error.logged)
            default: break
            }
            if case .tooLarge(let limit) = error, progress.withLock({ $0.parts }) > 0 {
                throw .answerTooLong(limit)
            }
            throw Problem(upstream: error)
        }
    }
}

/// The prompt of a function for a language model.
///
/// ```swift
/// let prompt: Prompt = "Translate into \(input.to): \(input.text)"
/// ```
public struct Prompt: Hashable, Sendable, ExpressibleByStringInterpolation {
    /// The turns, oldest first.
    public var messages: [UpstreamPrompt.Message]

    /// Creates a prompt of the given turns.
    public init(messages: [UpstreamPrompt.Message]) { self.messages = messages }

    /// Creates a prompt of one user turn, optionally after a system prompt.
    public init(system: String? = nil, _ text: String) {
        messages = (system.map { [.init(.system, $0)] } ?? []) + [.init(.user, text)]
    }

    /// Creates a prompt of one user turn.
    public init(stringLiteral value: String) { self.init(value) }

    /// Returns the prompt with the last messages of its thread, after the turns of the system that
    /// it begins with.
    func continuing(_ history: [ChatMessage]) -> Prompt {
        guard !history.isEmpty else { return self }
        let index = messages.firstIndex { $0.role != .system } ?? messages.endIndex
        var prompt = self
        prompt.messages.insert(
            contentsOf: history.map { .init($0.role == .user ? .user : .assistant, $0.promptText) },
            at: index
        )
        return prompt
    }

    /// The size of the text in bytes, which limits its tokens.
    var bytes: Int { messages.reduce(0) { $0 + $1.textBytes } }
}

extension RunProgress {
    /// Records a piece of an answer and the usage it reports.
    fileprivate mutating func record(_ event: UpstreamEvent) {
        make(event.output)
        if event.isCutOff { answer() }
        if let usage = event.usage { report(usage.usage) }
    }

    /// Records an answer that was not streamed, and the usage it reports.
    fileprivate mutating func record(_ answer: UpstreamAnswer) {
        make(answer.output)
        if let usage = answer.usage { report(usage.usage) }
    }
}
