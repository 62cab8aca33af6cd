import Foundation
import SanguineModel

extension FunctionSetting {
    /// The members of a function in the file: `functions.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// `echo` or `upstream`; required.
        case kind
        /// The price of each call in the balance's unit; or specify the prices below instead.
        case price
        /// The price of a million input tokens of the upstream.
        case perMillionInput
        /// The price of a million output tokens of the upstream.
        case perMillionOutput
        /// The price of a million cached input tokens. Default: the price of other input.
        case perMillionCachedInput
        /// The price of a million reasoning tokens. Default: the price of other output.
        case perMillionReasoning
        /// The minimum price of a call that is charged by usage. Default: 1.
        case atLeast
        /// The price of a cached answer. Default: free.
        case cachedPrice
        /// The daily quota that a call uses. Default: none.
        case quota
        /// The number of quota units that a call uses. Default: 1.
        case quotaUnits
        /// The price if the remaining quota is insufficient. Default: the call is refused.
        case quotaOtherwise
        /// The moment at which quota units and a fixed price are charged. Default: units with the
        /// answer, the price once the call has been sent.
        case charged
        /// The lifetime of cached answers. Default: not cached.
        case cache
        /// The members of the account's settings on which answers depend.
        case cacheFacts
        /// The accounts that may get a cached answer. Default: the caller's account.
        case audience
        /// For the audience `public`: the members of the input that shared answers may reveal.
        case shares
        /// The account that pays when identical calls share a run. Default: the first.
        case payer
        /// Whether the answer can be streamed. Default: true.
        case streams
        /// The handling of a streamed call after its reader disconnects. Default: it continues.
        case onDisconnect
        /// The version of cached answers; a new one invalidates earlier answers. Default: 1.
        case version
        /// The maximum length of an answer in the upstream's tokens. Default: 512.
        case maxOutputTokens
        /// The system prompt. Default: none.
        case systemPrompt
        /// The prompt. Default: the question.
        case prompt
        /// The requested model. Default: that of the upstream.
        case model
        /// The upstreams to ask, in this order. Default: all.
        case upstreams
        /// The maximum number of files in a call. Default: none.
        case attachmentCount = "attachments.count"
        /// The minimum number of files in a call. Default: 0.
        case attachmentMinimum = "attachments.minimum"
        /// The maximum size of all files in bytes. Default: 25 MiB.
        case attachmentBytes = "attachments.bytes"
        /// The permitted content types. Default: JPEG, PNG and WebP.
        case attachmentTypes = "attachments.types"
        /// The maximum number of the upstream's tokens for a file. Default: 2,048.
        case attachmentTokens = "attachments.tokens"
        /// The maximum size of the input in bytes. Default: 128 KiB.
        case inputBytes = "limits.inputBytes"
        /// The maximum number of concurrent runs. Default: the server's limit.
        case running = "limits.running"
        /// The maximum number of concurrent runs of an account. Default: the account's limit.
        case runningPerAccount = "limits.runningPerAccount"
        /// The number of times an account may repeat the same call in a minute. Default: no limit.
        case repeatsPerMinute = "limits.repeatsPerMinute"
        /// The maximum number of runs that continue without a reader. Default: 100.
        case drains = "limits.drains"
        /// The time limit of a run. Default: the upstream's.
        case timeout = "limits.timeout"
        /// Whether a call may name a thread, which stores its question and answer. Default: false.
        case keepsHistory
        /// The maximum size of a thread's context, in the upstream's tokens. Default: 4,000.
        case historyTokens = "history.tokens"
        /// The maximum number of messages of a thread's context. Default: 40.
        case historyMessages = "history.messages"
        /// The function that makes a title for a new thread. Default: none.
        case titles

        static let amounts = 0...WireLimits.amount
        static let counterparts = 1...WireLimits.amount
        static let outputTokens: ClosedRange<Int64> = 1...1_000_000
        static let counts: ClosedRange<Int64> = 1...1_000_000
        static let attachments: ClosedRange<Int64> = 1...32
        static let minimums: ClosedRange<Int64> = 0...32
        static let bytes: ClosedRange<Int64> = 1...(1 << 28)
        static let tokens: ClosedRange<Int64> = 1...10_000_000
        static let contextTokens: ClosedRange<Int64> = 0...1_000_000
        static let contextMessages: ClosedRange<Int64> = 0...100
        static let times: ClosedRange<Duration> = .milliseconds(10) ... .seconds(3_600)
        static let lives: ClosedRange<Duration> = .seconds(1) ... .seconds(10 * 366 * 86_400)
        static let promptCharacters = 32_768
        static let names = 1...200

        /// Whether the value in the file is a list.
        public var isList: Bool {
            switch self {
            case .cacheFacts, .shares, .upstreams, .attachmentTypes: true
            default: false
            }
        }

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .kind: FunctionSetting.Kind.allCases.map(\.rawValue).joined(separator: ", ")
            case .price, .perMillionInput, .perMillionOutput, .perMillionCachedInput,
                .perMillionReasoning, .atLeast, .cachedPrice:
                allowedPrice
            case .quota: "the name of one of 'quotas'"
            case .quotaUnits: "a whole number from 1 to 1000000, together with 'quota'"
            case .quotaOtherwise:
                "a whole number from 1 to \(WireLimits.amount), together with 'quota'"
            case .charged:
                "onCompletion (charges a complete answer, or one that the caller cancelled after "
                    + "its first part) or onStart (charges each call that was sent to its "
                    + "upstream); with a 'quota' or a 'price'"
            case .cache:
                "none, midnight, session, forever, or a duration of at least 1s such as 10m; not "
                    + "with 'cacheFacts'"
            case .cacheFacts: "names of members of the account's settings; not with 'cache'"
            case .audience: "account, public; public only with a 'cache', and without attachments"
            case .shares: "members of 'inputs', with the audience public"
            case .payer: "first, each; for a function with a cache"
            case .streams: "true, false"
            case .onDisconnect:
                "drain (default: the answer is completed, kept and charged) or stop (the run is "
                    + "cancelled, and the parts so far are charged); for a function that streams"
            case .version: "1 to 200 characters, for a function with a cache"
            case .maxOutputTokens:
                "a whole number from 1 to 1000000; a truncated answer is not cached"
            case .systemPrompt, .prompt:
                "at most \(Self.promptCharacters) characters, for a function of kind upstream, "
                    + "with placeholders: {{name}} for a member of 'inputs', {{settings.name}} for "
                    + "one of 'cacheFacts'; each must occur in 'prompt' or 'systemPrompt'"
            case .model: "1 to 200 characters, for a function of kind upstream"
            case .upstreams: "names of 'upstreams', or 'default' for the one of 'upstream.url'"
            case .attachmentCount: "a whole number from 1 to 32, for a function of kind upstream"
            case .attachmentMinimum:
                "a whole number from 0 to 'attachments.count', which must be set"
            case .attachmentBytes:
                "a whole number from 1 to 268435456, together with 'attachments.count'"
            case .attachmentTypes: "types such as image/jpeg, together with 'attachments.count'"
            case .attachmentTokens:
                "a whole number from 1 to 10000000, together with 'attachments.count'"
            case .inputBytes: "a whole number from 1 to 268435456"
            case .running, .runningPerAccount, .repeatsPerMinute:
                "a whole number from 1 to 1000000"
            case .drains:
                "a whole number from 1 to 1000000; further streams without a reader are cancelled"
            case .timeout: "a duration from 10ms to 1h"
            case .keepsHistory:
                "true, false; with the audience public only if 'history.messages' is 0"
            case .historyTokens: "a whole number from 0 to 1000000, together with 'keepsHistory'"
            case .historyMessages:
                "a whole number from 0 (no context, so that a repeated question has a cached "
                    + "answer) to 100, together with 'keepsHistory'"
            case .titles:
                "the name of another function without titles, whose input has no members except "
                    + "'question' and 'answer'; with 'keepsHistory'"
            }
        }

        private var allowedPrice: String {
            let amount = "a whole number from 0 to \(WireLimits.amount)"
            return switch self {
            case .price:
                "\(amount); not needed with a 'quota', or with perMillionInput and "
                    + "perMillionOutput for a function of kind upstream"
            case .cachedPrice: "\(amount), for a function with a 'cache'"
            case .perMillionCachedInput, .perMillionReasoning:
                "\(amount), with perMillionInput and perMillionOutput; the price of tokens that "
                    + "the upstream reports as cached input or as reasoning"
            default: "\(amount), without 'price', for a function of kind upstream"
            }
        }
    }

    /// A description of the permitted types of an input member.
    public static let allowedInput = "string, integer, number, boolean, or a list of strings"

    /// Returns the problem of an invalid member in the file.
    static func refusal(
        of function: String,
        _ field: String,
        value: String,
        allowed: String,
        source: String = "settings"
    ) -> SettingsError.Problem {
        .invalid(
            setting: "functions.\(function).\(field)",
            value: value,
            allowed: allowed,
            source: source
        )
    }

    /// Reads a function from the file.
    ///
    /// - Parameters:
    ///   - name: The function's name.
    ///   - members: Its members; a list has its items separated by commas.
    ///   - inputs: The members of `inputs` by name, with `?` after the name of an optional one: a
    ///     type, or choices separated by commas. Default: a `question`.
    ///   - source: The source for error messages.
    /// - Throws: ``SettingsError`` for members that are missing, invalid or contradictory.
    public init(
        name: String,
        members: [Field: String],
        inputs: [String: String] = [:],
        source: String
    ) throws(SettingsError) {
        var reader = FunctionReader(name: name, members: members, source: source)
        let setting = reader.setting(inputs: inputs)
        guard reader.problems.isEmpty, let setting else { throw SettingsError(reader.problems) }
        let problems = setting.problems
        guard problems.isEmpty else { throw SettingsError(problems) }
        self = setting
    }
}

/// Reads the members of a function and collects all problems.
private struct FunctionReader {
    typealias Field = FunctionSetting.Field

    let name: String
    let members: [Field: String]
    let source: String
    var problems: [SettingsError.Problem] = []

    mutating func setting(inputs: [String: String]) -> FunctionSetting? {
        let kind = choice(.kind, FunctionSetting.Kind.self)
        if members[.kind] == nil { refuse(.kind) }
        var rules = FunctionRules(price: price(), streams: true)
        rules.cache = cache()
        rules.payer = choice(.payer, FunctionRules.Payer.self) ?? .first
        rules.streams = flag(.streams) ?? true
        rules.onDisconnect = choice(.onDisconnect, FunctionRules.Disconnect.self) ?? .drain
        rules.version = members[.version] ?? "1"
        rules.attachments = attachments()
        rules.limits = limits()
        readHistory(&rules)
        checkCompany(rules)
        guard let kind else { return nil }
        var setting = FunctionSetting(name: name, kind: kind, rules: rules)
        if !inputs.isEmpty { setting.inputs = self.inputs(inputs) }
        setting.prompt = members[.prompt] ?? setting.prompt
        setting.systemPrompt = members[.systemPrompt]
        setting.maxOutputTokens = integer(.maxOutputTokens, Field.outputTokens).map(Int.init) ?? 512
        setting.upstreams = list(.upstreams) ?? []
        setting.model = members[.model]
        let onlyUpstream: [Field] = [
            .prompt, .systemPrompt, .model, .upstreams, .attachmentCount, .maxOutputTokens,
            .timeout, .cacheFacts,
        ]
        if kind == .echo {
            for field in onlyUpstream {
                guard let value = members[field] else { continue }
                refuse(field.rawValue, "none for kind echo", value: value)
            }
            if let input = inputs.keys.min() { refuse("inputs.\(input)", "none for kind echo") }
        }
        return setting
    }

    private mutating func price() -> Price {
        let amount = integer(.price, Field.amounts)
        let input = integer(.perMillionInput, Field.amounts)
        let output = integer(.perMillionOutput, Field.amounts)
        let least = integer(.atLeast, Field.amounts)
        let cached = integer(.perMillionCachedInput, Field.amounts)
        let reasoning = integer(.perMillionReasoning, Field.amounts)
        let usageFields = [
            Field.perMillionInput, .perMillionOutput, .perMillionCachedInput, .perMillionReasoning,
            .atLeast,
        ]
        var price = Price.fixed(amount ?? 0)
        if members[.price] != nil {
            for field in usageFields where members[field] != nil { refuse(field) }
        } else if let input, let output {
            price = .usage(
                perMillionInput: input,
                perMillionOutput: output,
                perMillionCachedInput: cached,
                perMillionReasoning: reasoning,
                atLeast: least ?? 1
            )
        } else if problems.isEmpty,
            members[.quota] == nil || usageFields.contains(where: { members[$0] != nil })
        {
            refuse(.price)
        }
        price.cached = integer(.cachedPrice, Field.amounts)
        if let quota = members[.quota] {
            price = price.taking(integer(.quotaUnits, Field.counts) ?? 1, of: quota)
            price.quota?.otherwise = integer(.quotaOtherwise, Field.counterparts)
        } else {
            for field in [Field.quotaUnits, .quotaOtherwise] where members[field] != nil {
                refuse(field)
            }
        }
        if let moment = choice(.charged, ChargeMoment.self) {
            price = price.charged(moment)
            if price.charged == nil, price.quota == nil { refuse(.charged) }
        }
        return price
    }

    private mutating func cache() -> ResultCache {
        var cache = ResultCache.none
        if let facts = list(.cacheFacts) {
            if members[.cache] != nil || facts.isEmpty { refuse(.cacheFacts) }
            cache = ResultCache(.facts(facts))
        } else {
            switch members[.cache] {
            case nil, "none": break
            case "midnight": cache = .untilMidnight
            case "session": cache = .session
            case "forever": cache = .forever
            case let text?:
                if let life = DurationText.duration(text), Field.lives.contains(life) {
                    cache = .duration(life)
                } else {
                    refuse(.cache)
                }
            }
        }
        switch members[.audience] {
        case nil, "account": if members[.shares] != nil { refuse(.shares) }
        case "public":
            cache.audience = .everyone(sharing: Set(list(.shares) ?? []))
            if cache.lifetime == .none { refuse(.audience) }
        default: refuse(.audience)
        }
        return cache
    }

    private mutating func attachments() -> AttachmentRules? {
        var rules = AttachmentRules()
        if let count = integer(.attachmentCount, Field.attachments) { rules.count = Int(count) }
        if let least = integer(.attachmentMinimum, Field.minimums) { rules.minimum = Int(least) }
        if let bytes = integer(.attachmentBytes, Field.bytes) { rules.bytes = Int(bytes) }
        if let types = list(.attachmentTypes) {
            if types.isEmpty { refuse(.attachmentTypes) }
            rules.types = types
        }
        if let tokens = integer(.attachmentTokens, Field.tokens) { rules.tokens = tokens }
        if members[.attachmentCount] != nil { return rules }
        let others: [Field] = [
            .attachmentMinimum, .attachmentBytes, .attachmentTypes, .attachmentTokens,
        ]
        for field in others where members[field] != nil { refuse(field) }
        return nil
    }

    private mutating func limits() -> FunctionLimits {
        var limits = FunctionLimits()
        if let bytes = integer(.inputBytes, Field.bytes) { limits.inputBytes = Int(bytes) }
        limits.running = integer(.running, Field.counts).map(Int.init)
        limits.runningPerAccount = integer(.runningPerAccount, Field.counts).map(Int.init)
        limits.repeatsPerMinute = integer(.repeatsPerMinute, Field.counts).map(Int.init)
        if let drains = integer(.drains, Field.counts) { limits.drains = Int(drains) }
        if let text = members[.timeout] {
            let timeout = DurationText.duration(text)
            if timeout.map(Field.times.contains) != true { refuse(.timeout) }
            limits.timeout = timeout
        }
        return limits
    }

    private mutating func readHistory(_ rules: inout FunctionRules) {
        rules.keepsHistory = flag(.keepsHistory) ?? false
        if let tokens = integer(.historyTokens, Field.contextTokens) {
            rules.history.tokens = Int(tokens)
        }
        if let messages = integer(.historyMessages, Field.contextMessages) {
            rules.history.messages = Int(messages)
        }
        rules.titles = members[.titles]
        guard !rules.keepsHistory else { return }
        for field in [Field.historyTokens, .historyMessages, .titles] where members[field] != nil {
            refuse(field)
        }
    }

    /// Refuses members that have no effect in combination with the others.
    private mutating func checkCompany(_ rules: FunctionRules) {
        if rules.cache.lifetime == .none {
            for field in [Field.cachedPrice, .payer, .version] where members[field] != nil {
                refuse(field)
            }
        }
        if !rules.streams, members[.onDisconnect] != nil { refuse(.onDisconnect) }
    }

    private mutating func inputs(_ texts: [String: String]) -> [InputMember] {
        var members: [InputMember] = []
        for (name, text) in texts.sorted(by: { $0.key < $1.key }) {
            if let member = input(name, text) { members.append(member) }
        }
        return members
    }

    private mutating func input(_ name: String, _ text: String) -> InputMember? {
        let isOptional = name.hasSuffix("?")
        let plain = isOptional ? String(name.dropLast()) : name
        let kinds: [String: InputMember.Kind] = [
            "string": .string, "integer": .integer, "number": .number, "boolean": .boolean,
        ]
        let choices = Self.items(of: text)
        guard let kind = kinds[text] ?? (choices.count > 1 ? .choice(choices) : nil) else {
            refuse("inputs.\(name)", FunctionSetting.allowedInput, value: text)
            return nil
        }
        return InputMember(plain, kind, isOptional: isOptional)
    }

    private mutating func integer(_ field: Field, _ range: ClosedRange<Int64>) -> Int64? {
        guard let text = members[field] else { return nil }
        if let number = Int64(text), range.contains(number) { return number }
        refuse(field)
        return nil
    }

    private mutating func flag(_ field: Field) -> Bool? {
        guard let text = members[field] else { return nil }
        if Bool(text) == nil { refuse(field) }
        return Bool(text)
    }

    private mutating func choice<Choice: RawRepresentable<String>>(
        _ field: Field,
        _ type: Choice.Type
    ) -> Choice? {
        guard let text = members[field] else { return nil }
        let choice = Choice(rawValue: text)
        if choice == nil { refuse(field) }
        return choice
    }

    private func list(_ field: Field) -> [String]? { members[field].map(Self.items) }

    private static func items(of text: String) -> [String] { Setting.items(of: text) }

    private mutating func refuse(_ field: Field) {
        refuse(field.rawValue, field.allowed, value: members[field] ?? "")
    }

    private mutating func refuse(_ field: String, _ allowed: String, value: String = "…") {
        problems.append(
            FunctionSetting.refusal(
                of: name,
                field,
                value: value,
                allowed: allowed,
                source: source
            )
        )
    }
}
