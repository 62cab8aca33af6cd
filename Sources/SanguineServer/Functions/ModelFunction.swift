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
    /// Reads what a call brings, with the account's settings on which the answer depends.
    let read: @Sendable (FunctionInput) throws(Problem) -> Question
    /// Makes the output of what the model said.
    let output: @Sendable (String) throws(Problem) -> JSONValue

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let question = try read(input)
        let (prompt, files) = (question.prompt, input.attachments)
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

    /// What the model is shown at most: a video may be shown as several pictures.
    private func pictures(of files: [BlobFacts]) -> Int {
        let ofVideo = model.upstreams.picturesOfVideo(model.names)
        return files.reduce(0) { $0 + (FrameSampler.isVideo($1.type) ? ofVideo : 1) }
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

/// What bounds the tokens of a prompt.
struct PromptSize: Hashable, Sendable {
    /// Bytes of its text.
    var bytes: Int
    /// How many files go with it, a video as the pictures that it may be shown as.
    var attachments = 0
}

extension Pricing {
    func most(_ size: PromptSize) -> Int64 {
        most(promptBytes: size.bytes, attachments: size.attachments)
    }

    func guess(_ size: PromptSize) -> Int64 {
        guess(promptBytes: size.bytes, attachments: size.attachments)
    }

    func charge(_ progress: CallProgress, _ size: PromptSize) -> Int64 {
        charge(progress, promptBytes: size.bytes, attachments: size.attachments)
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
    /// The models that there are.
    let upstreams: Upstreams
    /// Which of them, in order; all if empty.
    let names: [String]
    /// The model that is asked for; that of the upstream if `nil`.
    let model: String?
    /// The longest answer.
    let maxOutputTokens: Int
    /// How long a call in one piece may take, fall-backs included.
    let timeout: Duration
    /// How long a streamed answer may take, and no pause of it longer than `timeout`.
    let streamTimeout: Duration
    let logger: Logger

    /// What came of a request.
    private struct Answered {
        var answer: UpstreamAnswer
        /// What was made and reported for it.
        var progress: CallProgress
    }

    /// A call of a function that asks.
    ///
    /// - Parameters:
    ///   - input: The part of the input that is heeded.
    ///   - rules: What the function declares.
    ///   - size: What bounds the prompt's tokens.
    ///   - most: The longest answer that is asked for, in tokens.
    ///   - part: What of an event is a part of the answer; an empty one is none. Default: its text.
    ///   - request: Makes what is asked.
    ///   - output: Makes the output of the answer.
    ///   - written: The output as it stands in the answer. Default: `nil`, it is written.
    /// - Returns: The call, with what it holds.
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

    /// Asks, and gives on what comes.
    ///
    /// - Throws: `upstream_failed`, `upstream_timeout`, `overloaded`; `upstream_refused` for what
    ///   the caller has caused, and `invalid_content` for a video without pictures.
    private func answer(
        _ request: UpstreamRequest,
        within timeout: Duration,
        _ context: CallContext,
        part: @escaping @Sendable (UpstreamEvent) -> String
    ) async throws(Problem) -> Answered {
        let progress = Mutex(CallProgress())
        do throws(UpstreamError) {
            let answer = try await upstreams.answer(
                request,
                among: names,
                for: context.caller,
                within: context.isStreamed ? max(timeout, streamTimeout) : timeout,
                silence: timeout,
                streamed: context.isStreamed
            ) { event in
                let made = progress.withLock { progress in
                    progress.take(event)
                    return progress
                }
                context.report(made)
                await context.write(event.isCutOff ? "" : part(event), 0)
            }
            return Answered(
                answer: answer,
                progress: progress.withLock { progress in
                    if !context.isStreamed { progress.take(answer) }
                    return progress
                }
            )
        } catch {
            if !error.mayHaveBeenSent { context.askedNobody() }
            // Attempts are logged with their upstreams.
            switch error {
            case .unavailable, .videoUnreadable, .noFrames:
                logger.warning("No upstream was asked", metadata: error.logged)
            default: break
            }
            if case .tooLarge(let limit) = error, progress.withLock({ $0.parts }) > 0 {
                throw .answerTooLong(limit)
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

extension CallProgress {
    /// Records a piece of an answer, and what it reports.
    fileprivate mutating func take(_ event: UpstreamEvent) {
        make(event.output)
        if event.isCutOff { answer() }
        if let usage = event.usage { report(usage.usage) }
    }

    /// Records an answer that came in one piece, and what it reports.
    fileprivate mutating func take(_ answer: UpstreamAnswer) {
        make(answer.output)
        if let usage = answer.usage { report(usage.usage) }
    }
}
