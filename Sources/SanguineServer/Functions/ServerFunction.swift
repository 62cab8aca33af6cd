import Logging
import SanguineAuthority
public import SanguineModel

/// A function of a server of one's own: a call that both ends declare, and what answers it.
///
/// ```swift
/// let functions: [ServerFunction] = [
///     ServerFunction(Chart.self) { call in try chart(of: call.input.birth) },
///     ServerFunction(asking: Translate.self) { "Translate into \($0.to): \($0.text)" },
/// ]
/// let server = try await SanguineServer(storage: storage, keys: keys, functions: functions)
/// ```
///
/// It is served by the `FunctionCall.rules` of the call. What both ends share cannot disagree:
/// name, input, output, price and limits stand once.
public struct ServerFunction: Sendable {
    /// What a function is made of when a server starts.
    struct Surroundings: Sendable {
        var settings: ServerSettings
        var upstreams: Upstreams
        var clock: any Clock<Duration>
        var logger: Logger

        /// How a function of the settings asks models: as it says, or others for their own.
        func model(_ setting: FunctionSetting, of others: [String]? = nil) -> ModelCall {
            model(
                names: others ?? setting.upstreams,
                model: others == nil ? setting.model : nil,
                maxOutputTokens: setting.maxOutputTokens
            )
        }

        /// How a function asks models.
        ///
        /// One that names no upstreams asks the first and its fall-backs.
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
                // One that says nothing leaves the next its time.
                timeout: settings.upstream.timeout * max(1, names.count),
                streamTimeout: settings.upstream.streamTimeout,
                logger: logger
            )
        }
    }

    /// Whom a function asks, and for how much.
    struct Asking: Sendable {
        var upstreams: [String]
        var model: String?
        var maxOutputTokens: Int
    }

    /// The name in the path.
    public let name: String
    /// What it costs, how long its answers are kept, and its limits.
    public let rules: FunctionRules
    /// The members of the input, by name and type; `nil` if they could not be found.
    let inputs: [String: String]?
    /// Whom it asks; `nil` for one that computes, of which nothing reports a usage.
    let asks: Asking?
    let make: @Sendable (Surroundings) -> any MeteredFunction

    /// A function that computes its output.
    ///
    /// - Parameters:
    ///   - type: The call, which both ends know. Its price is fixed, a quota, or nothing.
    ///   - inputs: The members of its input by name and type, as `GET /v1/functions` lists them.
    ///     Default: found by decoding.
    ///   - compute: Makes the output. A `Refusal` that it throws is the caller's answer, any
    ///     other error is 502 `upstream_failed`; either way nothing is charged. Its task is
    ///     cancelled when nobody wants the answer any more.
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

    /// A function that asks a language model.
    ///
    /// - Parameters:
    ///   - type: The call, which both ends know. Its output is what the model says: a text, or what
    ///     can be decoded from it as JSON.
    ///   - model: The model that is asked for. Default: that of the upstream.
    ///   - upstreams: The names of the upstreams that are asked, in this order. Default: all.
    ///   - maxOutputTokens: The longest answer, in the model's tokens; it bounds what a call by
    ///     usage can cost. Default: 512.
    ///   - inputs: The members of its input by name and type. Default: found by decoding.
    ///   - prompt: What the model is asked. It is given the input, those members of the account's
    ///     settings that the cache declares by `untilChange(of:)`, and what is known of the files
    ///     of the call, which the model is shown after the last turn of the user. A `Refusal` that
    ///     it throws refuses the call, before anything is held. It runs on a thread that
    ///     connections share, and so does the decoding of the output: neither must take long.
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

    /// A function that asks a language model, by its input and the account's settings.
    ///
    /// Like the initializer whose prompt is given the files of the call, too.
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

    /// A function that asks a language model, by its input alone.
    ///
    /// Like the initializer whose prompt is given the account's settings, too.
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

    /// What the model said, as the output of a call.
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

    /// What is wrong with it.
    var faults: [String] {
        var faults = rules.faults.map { fault in
            "The function '\(name)' cannot have '\(fault.field.rawValue)' “\(fault.value)”. "
                + "Allowed: \(fault.field.allowed)."
        }
        if !ServerSettings.isListName(name) {
            faults.append("Name the function '\(name)' with 1 to 64 letters, digits, - and _.")
        }
        if inputs == nil {
            faults.append(
                "Give the function '\(name)' its 'inputs': they cannot be found by decoding."
            )
        }
        if let asks, !FunctionSetting.Field.outputTokens.contains(Int64(asks.maxOutputTokens)) {
            faults.append(
                "Give the function '\(name)' \(FunctionSetting.Field.maxOutputTokens.allowed) "
                    + "as 'maxOutputTokens'."
            )
        }
        if asks == nil, rules.price.kind == .usage {
            faults.append(
                "Give the function '\(name)' a fixed price: what it computes reports no usage."
            )
        }
        if case .everyone(let shared) = rules.cache.audience {
            let names = (inputs ?? [:]).keys.map { $0.hasSuffix("?") ? String($0.dropLast()) : $0 }
            for name in shared.subtracting(names).sorted() {
                faults.append("Share members that '\(self.name)' has: it has no '\(name)'.")
            }
        }
        return faults
    }
}

/// A call that a server's own code computes.
public struct FunctionRun<Call: FunctionCall>: Sendable {
    /// What the function works on.
    public let input: Call.Input
    /// Who asks; `nil` where the answer is for everybody.
    public let account: Identifier?
    /// The files that the call brings, within the call's `FunctionRules.attachments`.
    public let attachments: [Attachment]
    /// The members of the account's settings on which the answer depends, as the cache declares
    /// them by `untilChange(of:)`: `null` for one that is not set.
    public var settings: [String: JSONValue] { context.settings }
    let context: CallContext

    /// Adds a part to the answer, for a function that streams, and waits while too much is not
    /// stored yet.
    ///
    /// The parts are what a reader sees come; the output that is returned is the answer.
    public func write(_ part: String) async { await context.write(part, part.utf8.count) }

    /// A file that a call brings.
    public struct Attachment: Sendable {
        /// What is known of it: id, size and type, and of a picture its width and height.
        public let facts: BlobFacts
        fileprivate let context: CallContext

        /// Reads its bytes.
        ///
        /// - Throws: `not_found` for a file that was removed meanwhile, or `internal_fault`.
        public func bytes() async throws(Problem) -> [UInt8] {
            try await context.attachment(facts)
        }
    }
}

/// A function that a server's own code computes.
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
        let files = input.attachments
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
    /// Runs a body that is cancelled when its time is over.
    private func inTime<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            // It may compute for long, and connections share their threads.
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
    /// The refusal of a call whose input the server's own code does not take.
    fileprivate init(refusing error: any Error) {
        let refusal = error as? Refusal
        self = refusal?.problem ?? Problem(.invalidContent, "Change 'input': it is not taken so.")
    }
}
