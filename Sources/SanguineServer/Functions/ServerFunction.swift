import Logging
import SanguineAuthority
public import SanguineModel

/// A function of your own server: the call that client and server declare, and its implementation.
///
/// ```swift
/// let functions: [ServerFunction] = [
///     ServerFunction(Chart.self) { call in try chart(of: call.input.birth) },
///     ServerFunction(asking: Translate.self) { "Translate into \($0.to): \($0.text)" },
/// ]
/// let server = try await SanguineServer(storage: storage, keys: keys, functions: functions)
/// ```
///
/// The `FunctionCall.rules` of the call apply. Client and server cannot disagree, because name,
/// input, output, price and limits are declared once in shared code.
public struct ServerFunction: Sendable {
    /// The values that a server provides to create its functions.
    struct Surroundings: Sendable {
        var settings: ServerSettings
        var upstreams: Upstreams
        var clock: any Clock<Duration>
        var logger: Logger

        /// Returns the models for a function of the settings, or for the given upstreams with their
        /// own models.
        func model(_ setting: FunctionSetting, of others: [String]? = nil) -> ModelCall {
            model(
                names: others ?? setting.upstreams,
                model: others == nil ? setting.model : nil,
                maxOutputTokens: setting.maxOutputTokens
            )
        }

        /// Returns the models and limits for a function.
        ///
        /// A function without named upstreams asks the first upstream and its fallbacks.
        func model(
            names: [String],
            model: String?,
            maxOutputTokens: Int
        ) -> ModelCall {
            let names = names.isEmpty ? settings.upstreamOrder : names
            return ModelCall(
                upstreams: upstreams,
                names: names,
                model: model,
                maxOutputTokens: maxOutputTokens,
                // If an upstream does not answer, the next one still has its time.
                timeout: settings.upstream.timeout * max(1, names.count),
                streamTimeout: settings.upstream.streamTimeout,
                logger: logger
            )
        }
    }

    /// The models that a function asks, and the maximum length of an answer.
    struct Asking: Sendable {
        var upstreams: [String]
        var model: String?
        var maxOutputTokens: Int
    }

    /// The name in the path.
    public let name: String
    /// The price, the lifetime of cached answers, and the limits.
    public let rules: FunctionRules
    /// The members of the input by name and type; `nil` if they could not be determined.
    let inputs: [String: String]?
    /// The models that it asks; `nil` for a function that computes, because it reports no usage.
    let asks: Asking?
    /// The name of the call whose records it changes; `nil` for none.
    private(set) var recorded: String?
    private(set) var make: @Sendable (Surroundings) -> any MeteredFunction

    /// Creates a function that computes its output.
    ///
    /// - Parameters:
    ///   - type: The call that client and server share. Its price is fixed, a quota, or nothing.
    ///   - inputs: The members of its input by name and type, in the form of `GET /v1/functions`.
    ///     Default: determined by decoding.
    ///   - compute: Computes the output. If it throws a `Refusal`, the caller receives it; any
    ///     other error becomes 502 `upstream_failed`. In both cases nothing is charged. Its task is
    ///     cancelled when no caller waits for the answer any longer.
    public init<Call: FunctionCall>(
        _ type: Call.Type,
        inputs: [String: String]? = nil,
        compute: @escaping @Sendable (FunctionRun<Call>) async throws -> Call.Output
    ) {
        let members = TypedInput<Call.Input>(inputs)
        name = Call.name
        rules = Call.rules
        self.inputs = members.listed
        asks = nil
        make = { surroundings in
            ComputedFunction<Call>(
                inputs: members,
                timeout: Call.rules.limits.timeout ?? surroundings.settings.upstream.timeout,
                clock: surroundings.clock,
                logger: surroundings.logger,
                compute: compute
            )
        }
    }

    /// Creates a function that asks a language model.
    ///
    /// - Parameters:
    ///   - type: The call that client and server share. Its output is the model's answer: a string,
    ///     or a value decoded from it as JSON.
    ///   - model: The requested model. Default: that of the upstream.
    ///   - upstreams: The names of the upstreams to ask, in this order. Default: all.
    ///   - maxOutputTokens: The maximum length of an answer in the model's tokens, which limits the
    ///     cost of a call that is charged by usage. Default: 512.
    ///   - inputs: The members of its input by name and type. Default: determined by decoding.
    ///   - prompt: Creates the prompt from the input, the members of the account's settings that
    ///     the cache declares with `untilChange(of:)`, and the metadata of the call's files. The
    ///     files are added to the user's last turn. If it throws a `Refusal`, the call is refused
    ///     before anything is held. It runs on a thread that connections share, as does the
    ///     decoding of the output, so neither must take long.
    public init<Call: FunctionCall>(
        asking type: Call.Type,
        model: String? = nil,
        upstreams: [String] = [],
        maxOutputTokens: Int = 512,
        inputs: [String: String]? = nil,
        prompt:
            @escaping @Sendable (
                _ input: Call.Input, _ settings: [String: JSONValue], _ files: [BlobFacts]
            ) throws -> Prompt
    ) {
        let members = TypedInput<Call.Input>(inputs)
        name = Call.name
        rules = Call.rules
        self.inputs = members.listed
        let asking = Asking(
            upstreams: upstreams,
            model: model,
            maxOutputTokens: maxOutputTokens
        )
        asks = asking
        make = { surroundings in
            ModelFunction(
                name: Call.name,
                rules: Call.rules,
                inputs: members.listed ?? [:],
                model: surroundings.model(
                    names: asking.upstreams,
                    model: asking.model,
                    maxOutputTokens: asking.maxOutputTokens
                ),
                read: { call throws(Problem) in
                    let (input, heeded) = try members.read(call.value)
                    do {
                        let prompt = try prompt(input, call.settings, call.attachments)
                        return ModelFunction.Question(input: heeded, prompt: prompt)
                    } catch {
                        throw Problem(refusing: error)
                    }
                },
                output: { text throws(Problem) in try Self.output(Call.Output.self, of: text) }
            )
        }
    }

    /// Creates a function that asks a language model, with a prompt of input and account settings.
    ///
    /// Otherwise like the initializer whose prompt also receives the files of the call.
    public init<Call: FunctionCall>(
        asking type: Call.Type,
        model: String? = nil,
        upstreams: [String] = [],
        maxOutputTokens: Int = 512,
        inputs: [String: String]? = nil,
        prompt:
            @escaping @Sendable (
                _ input: Call.Input, _ settings: [String: JSONValue]
            ) throws -> Prompt
    ) {
        self.init(
            asking: type,
            model: model,
            upstreams: upstreams,
            maxOutputTokens: maxOutputTokens,
            inputs: inputs
        ) { input, settings, _ in try prompt(input, settings) }
    }

    /// Creates a function that asks a language model, with a prompt of the input only.
    ///
    /// Otherwise like the initializer whose prompt also receives the account's settings.
    public init<Call: FunctionCall>(
        asking type: Call.Type,
        model: String? = nil,
        upstreams: [String] = [],
        maxOutputTokens: Int = 512,
        inputs: [String: String]? = nil,
        prompt: @escaping @Sendable (Call.Input) throws -> Prompt
    ) {
        self.init(
            asking: type,
            model: model,
            upstreams: upstreams,
            maxOutputTokens: maxOutputTokens,
            inputs: inputs
        ) { input, _, _ in try prompt(input) }
    }

    /// Returns the function within another one, which changes the records of a call of that name.
    func recording(
        _ call: String,
        _ wrap: @escaping @Sendable (any MeteredFunction) -> any MeteredFunction
    ) -> ServerFunction {
        var function = self
        function.recorded = call
        function.make = { [make] surroundings in wrap(make(surroundings)) }
        return function
    }

    /// Converts the model's answer to the output of a call.
    private static func output<Output: Codable & Sendable>(
        _ type: Output.Type,
        of text: String
    ) throws(Problem) -> JSONValue {
        if type is String.Type { return .string(text) }
        guard let value = try? JSONParser.parse(Array(text.utf8), limits: .init()).value,
            (try? value.decoded(as: type)) != nil
        else { throw .upstreamFailed }
        return value
    }

    /// Descriptions of everything that is invalid about the function.
    var faults: [String] {
        var faults = rules.faults.map { fault in
            "The function '\(name)' cannot have '\(fault.field.rawValue)' “\(fault.value)”. "
                + "Allowed: \(fault.field.allowed)."
        }
        if !ServerSettings.isListName(name) {
            faults.append("Name the function '\(name)' with 1 to 64 letters, digits, - and _.")
        }
        if let recorded, recorded != name {
            faults.append("Record calls of '\(name)' only: '\(recorded)' is another function.")
        }
        if inputs == nil {
            faults.append(
                "Declare the 'inputs' of the function '\(name)': decoding does not reveal them."
            )
        }
        if let asks, !FunctionSetting.Field.outputTokens.contains(Int64(asks.maxOutputTokens)) {
            faults.append(
                "Set 'maxOutputTokens' of the function '\(name)' to "
                    + "\(FunctionSetting.Field.maxOutputTokens.allowed)."
            )
        }
        if asks == nil, rules.price.kind == .usage {
            faults.append(
                "Give the function '\(name)' a fixed price: computed functions report no usage."
            )
        }
        if case .everyone(let shared) = rules.cache.audience {
            let names = (inputs ?? [:]).keys.map { $0.hasSuffix("?") ? String($0.dropLast()) : $0 }
            for name in shared.subtracting(names).sorted() {
                faults.append("Share only inputs of '\(self.name)': it has no '\(name)'.")
            }
        }
        return faults
    }
}

/// A call that is computed by the server's own code.
public struct FunctionRun<Call: FunctionCall>: Sendable {
    /// The input of the call.
    public let input: Call.Input
    /// The account that made the call; `nil` if the answer is shared by all accounts.
    public let account: Identifier?
    /// The files of the call, within its `FunctionRules.attachments`.
    public let attachments: [Attachment]
    /// The members of the account's settings on which the answer depends, as the cache declares
    /// them with `untilChange(of:)`; `null` for a member that is not set.
    public var settings: [String: JSONValue] { context.settings }
    /// The last messages of the call's thread, oldest first, within `FunctionRules.history`; empty
    /// for a call without a thread.
    public let history: [ChatMessage]
    let context: CallContext

    /// Adds a part to a streamed answer, and suspends while too many parts are not stored yet.
    ///
    /// Readers see the parts as they arrive; the returned output is the answer.
    public func write(_ part: String) async { await context.write(part, part.utf8.count) }

    /// A file of a call.
    public struct Attachment: Sendable {
        /// Its id, size and type, and the width and height of an image.
        public let facts: BlobFacts
        fileprivate let context: CallContext

        /// Reads its bytes.
        ///
        /// - Throws: `not_found` if the file was removed in the meantime, or `internal_fault`.
        public func bytes() async throws(Problem) -> [UInt8] {
            try await context.attachment(facts)
        }
    }
}

/// A function that is computed by the server's own code.
private struct ComputedFunction<Call: FunctionCall>: MeteredFunction {
    let inputs: [String: String]
    private let members: TypedInput<Call.Input>
    private let timeout: Duration
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let compute: @Sendable (FunctionRun<Call>) async throws -> Call.Output

    init(
        inputs members: TypedInput<Call.Input>,
        timeout: Duration,
        clock: any Clock<Duration>,
        logger: Logger,
        compute: @escaping @Sendable (FunctionRun<Call>) async throws -> Call.Output
    ) {
        self.members = members
        inputs = members.listed ?? [:]
        self.timeout = timeout
        self.clock = clock
        self.logger = logger
        self.compute = compute
    }

    var name: String { Call.name }
    var rules: FunctionRules { Call.rules }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let (value, heeded) = try members.read(input.value)
        let (files, history) = (input.attachments, input.history)
        let price = rules.price.amount
        return PreparedCall(
            input: heeded,
            hold: price,
            guess: price,
            life: timeout + .seconds(60),
            isSent: false,
            chargeWhenCut: { _ in price }
        ) { context async throws(Problem) in
            do {
                let run = FunctionRun<Call>(
                    input: value,
                    account: context.account,
                    attachments: files.map { .init(facts: $0, context: context) },
                    history: history,
                    context: context
                )
                let output = try await inTime { try await compute(run) }
                return PreparedCall.Outcome(output: try JSONValue(encoding: output), charge: price)
            } catch let refusal as Refusal {
                throw refusal.problem
            } catch let problem as Problem {
                throw problem
            } catch {
                logger.warning(
                    "A function failed",
                    metadata: ["function": "\(Call.name)", "error": "\(type(of: error))"]
                )
                throw .upstreamFailed
            }
        }
    }
}

extension ComputedFunction {
    /// Runs a body, and cancels it after the timeout.
    private func inTime<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            // The body may compute for long, and connections share their threads.
            group.addTask(executorPreference: globalConcurrentExecutor) { try await body() }
            group.addTask {
                try await clock.sleep(for: timeout)
                return nil
            }
            defer { group.cancelAll() }
            guard let value = try await group.next() ?? nil else { throw Problem.upstreamTooSlow }
            return value
        }
    }
}

extension Problem {
    /// Creates the refusal of a call whose input the server's own code rejects.
    fileprivate init(refusing error: any Error) {
        let refusal = error as? Refusal
        self =
            refusal?.problem
            ?? Problem(.invalidContent, "Change 'input': the function does not accept it.")
    }
}
