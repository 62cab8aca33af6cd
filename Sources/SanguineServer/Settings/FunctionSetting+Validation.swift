import SanguineModel

extension FunctionSetting {
    /// The problems of the function on its own.
    var problems: [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        func refuse(_ field: Field, _ value: String) {
            problems.append(
                Self.refusal(of: name, field.rawValue, value: value, allowed: field.allowed)
            )
        }
        for fault in rules.faults { refuse(fault.field, fault.value) }
        if kind == .echo, price.kind == .usage { refuse(.price, "usage") }
        if kind == .echo, rules.attachments != nil { refuse(.attachmentCount, "…") }
        if kind == .echo, let timeout = rules.limits.timeout { refuse(.timeout, "\(timeout)") }
        if !Field.outputTokens.contains(Int64(maxOutputTokens)) {
            refuse(.maxOutputTokens, String(maxOutputTokens))
        }
        if !(prompt.count <= Field.promptCharacters) { refuse(.prompt, "…") }
        if systemPrompt?.count ?? 0 > Field.promptCharacters { refuse(.systemPrompt, "…") }
        if let model, !Field.names.contains(model.count) { refuse(.model, model) }
        if kind == .upstream { problems += problemsOfInputs }
        return problems
    }

    /// Placeholders without a member and members without a placeholder, which would be dropped.
    private var problemsOfInputs: [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        let places = PromptTemplate(prompt).names
            .union(PromptTemplate(systemPrompt ?? "").names)
        let names = inputs.map(\.name)
        var facts: [String] = []
        if case .facts(let names) = rules.cache.lifetime {
            facts = names.map { PromptTemplate.settings + $0 }
        }
        for name in Set(names + facts).symmetricDifference(places).sorted() {
            problems.append(
                Self.refusal(
                    of: self.name,
                    Field.prompt.rawValue,
                    value: "{{\(name)}}",
                    allowed: Field.prompt.allowed
                )
            )
        }
        var seen: Set<String> = []
        for name in names where !ServerSettings.isListName(name) || !seen.insert(name).inserted {
            problems.append(
                Self.refusal(
                    of: self.name,
                    "inputs.\(name)",
                    value: name,
                    allowed: "names of 1 to 64 letters, digits, - and _, each once"
                )
            )
        }
        if case .everyone(let shared) = rules.cache.audience, !shared.isSubset(of: names) {
            let others = shared.subtracting(names).sorted().joined(separator: ", ")
            problems.append(
                Self.refusal(
                    of: self.name,
                    Field.shares.rawValue,
                    value: others,
                    allowed: Field.shares.allowed
                )
            )
        }
        return problems
    }
}

extension FunctionRules {
    /// A member of the rules with an invalid value.
    struct Fault: Hashable {
        var field: FunctionSetting.Field
        var value: String
    }

    /// The problems of the rules, declared in the settings or in code.
    var faults: [Fault] {
        faultsOfPrice + faultsOfCache + faultsOfLimits + faultsOfHistory
    }

    private var faultsOfPrice: [Fault] {
        typealias Field = FunctionSetting.Field
        var faults: [Fault] = []
        func check(_ field: Field, _ amount: Int64?, _ range: ClosedRange<Int64> = Field.amounts) {
            if let amount, !range.contains(amount) {
                faults.append(Fault(field: field, value: String(amount)))
            }
        }
        check(price.kind == .fixed ? .price : .atLeast, price.amount)
        if price.kind == .usage {
            check(.perMillionInput, price.perMillionInput ?? -1)
            check(.perMillionOutput, price.perMillionOutput ?? -1)
            check(.perMillionCachedInput, price.perMillionCachedInput)
            check(.perMillionReasoning, price.perMillionReasoning)
        }
        check(.cachedPrice, price.cached)
        check(.quotaUnits, price.quota?.units, Field.counts)
        check(.quotaOtherwise, price.quota?.otherwise, Field.counterparts)
        if let moment = price.charged, price.kind == .usage {
            faults.append(Fault(field: .charged, value: "\(moment.rawValue) with a price by usage"))
        }
        if price.cached != nil, cache.lifetime == .none {
            faults.append(Fault(field: .cachedPrice, value: "without a cache"))
        }
        return faults
    }

    private var faultsOfCache: [Fault] {
        var faults: [Fault] = []
        if case .duration(let life) = cache.lifetime, !FunctionSetting.Field.lives.contains(life) {
            faults.append(Fault(field: .cache, value: "\(life)"))
        }
        if case .facts(let names) = cache.lifetime, names.isEmpty {
            faults.append(Fault(field: .cacheFacts, value: ""))
        }
        guard cache.audience != .account else { return faults }
        // Answers that depend on a session or on settings of an account must not be shared.
        switch cache.lifetime {
        case .none, .session, .facts: faults.append(Fault(field: .audience, value: "public"))
        case .duration, .midnight, .forever: break
        }
        if attachments != nil { faults.append(Fault(field: .audience, value: "public")) }
        return faults
    }

    private var faultsOfLimits: [Fault] {
        typealias Field = FunctionSetting.Field
        var faults: [Fault] = []
        func check(_ field: Field, _ number: Int64?, _ range: ClosedRange<Int64> = Field.counts) {
            if let number, !range.contains(number) {
                faults.append(Fault(field: field, value: String(number)))
            }
        }
        check(.inputBytes, Int64(limits.inputBytes), Field.bytes)
        check(.running, limits.running.map(Int64.init))
        check(.runningPerAccount, limits.runningPerAccount.map(Int64.init))
        check(.repeatsPerMinute, limits.repeatsPerMinute.map(Int64.init))
        check(.drains, Int64(limits.drains))
        if let timeout = limits.timeout, !Field.times.contains(timeout) {
            faults.append(Fault(field: .timeout, value: "\(timeout)"))
        }
        if let attachments {
            check(.attachmentCount, Int64(attachments.count), Field.attachments)
            let minimums = 0...max(0, Int64(attachments.count))
            check(.attachmentMinimum, Int64(attachments.minimum), minimums)
            check(.attachmentBytes, Int64(attachments.bytes), Field.bytes)
            check(.attachmentTokens, attachments.tokens, Field.tokens)
            if attachments.types.isEmpty {
                faults.append(Fault(field: .attachmentTypes, value: ""))
            }
        }
        return faults
    }

    private var faultsOfHistory: [Fault] {
        typealias Field = FunctionSetting.Field
        var faults: [Fault] = []
        let (tokens, messages) = (Int64(history.tokens), Int64(history.messages))
        if !Field.contextTokens.contains(tokens) {
            faults.append(Fault(field: .historyTokens, value: String(tokens)))
        }
        if !Field.contextMessages.contains(messages) {
            faults.append(Fault(field: .historyMessages, value: String(messages)))
        }
        if !keepsHistory, let titles { faults.append(Fault(field: .titles, value: titles)) }
        // An answer that depends on the thread of one account must not be shared.
        if keepsHistory, cache.audience != .account, messages > 0 {
            faults.append(Fault(field: .keepsHistory, value: "true with the audience public"))
        }
        return faults
    }
}

extension FunctionSetting {
    /// The members in the form of the file, in the order of ``Field``, then those of `inputs`.
    public var texts: [(name: String, text: String)] {
        let members = Field.allCases.compactMap { field in
            text(of: field).map { (field.rawValue, $0) }
        }
        guard kind == .upstream else { return members }
        return members
            + inputs.map { member in
                let name = member.isOptional ? member.name + "?" : member.name
                return ("inputs.\(name)", member.fileText)
            }
    }

    private func text(of field: Field) -> String? {
        switch field {
        case .kind, .prompt, .systemPrompt, .maxOutputTokens, .model, .upstreams:
            textOfModel(of: field)
        case .price, .perMillionInput, .perMillionOutput, .perMillionCachedInput,
            .perMillionReasoning, .atLeast, .cachedPrice, .quota, .quotaUnits, .quotaOtherwise,
            .charged:
            textOfPrice(of: field)
        case .cache, .cacheFacts, .audience, .shares, .payer, .version:
            rules.cache.lifetime == .none ? nil : textOfCache(of: field)
        case .streams: String(rules.streams)
        case .onDisconnect: rules.streams ? rules.onDisconnect.rawValue : nil
        case .attachmentCount: rules.attachments.map { String($0.count) }
        case .attachmentMinimum: rules.attachments.map { String($0.minimum) }
        case .attachmentBytes: rules.attachments.map { String($0.bytes) }
        case .attachmentTypes: rules.attachments?.types.joined(separator: ", ")
        case .attachmentTokens: rules.attachments.map { String($0.tokens) }
        case .inputBytes: String(rules.limits.inputBytes)
        case .running: rules.limits.running.map { String($0) }
        case .runningPerAccount: rules.limits.runningPerAccount.map { String($0) }
        case .repeatsPerMinute: rules.limits.repeatsPerMinute.map { String($0) }
        case .drains: rules.streams ? String(rules.limits.drains) : nil
        case .timeout: rules.limits.timeout.map(DurationText.text)
        case .keepsHistory: rules.keepsHistory ? "true" : nil
        case .historyTokens: rules.keepsHistory ? String(rules.history.tokens) : nil
        case .historyMessages: rules.keepsHistory ? String(rules.history.messages) : nil
        case .titles: rules.titles
        }
    }

    private func textOfModel(of field: Field) -> String? {
        switch field {
        case .kind: kind.rawValue
        case .prompt: kind == .upstream ? prompt : nil
        case .systemPrompt: systemPrompt
        case .maxOutputTokens: kind == .upstream ? String(maxOutputTokens) : nil
        case .model: model
        default: upstreams.isEmpty ? nil : upstreams.joined(separator: ", ")
        }
    }

    private func textOfPrice(of field: Field) -> String? {
        switch field {
        case .price: price.kind == .fixed ? String(price.amount) : nil
        case .perMillionInput: price.perMillionInput.map { String($0) }
        case .perMillionOutput: price.perMillionOutput.map { String($0) }
        case .perMillionCachedInput: price.perMillionCachedInput.map { String($0) }
        case .perMillionReasoning: price.perMillionReasoning.map { String($0) }
        case .atLeast: price.kind == .usage ? String(price.amount) : nil
        case .cachedPrice: price.cached.map { String($0) }
        case .quota: price.quota?.name
        case .quotaOtherwise: price.quota?.otherwise.map { String($0) }
        case .charged: (price.quota?.charged ?? price.charged)?.rawValue
        default: price.quota.map { String($0.units) }
        }
    }

    private func textOfCache(of field: Field) -> String? {
        switch field {
        case .cache:
            switch rules.cache.lifetime {
            case .duration(let life): DurationText.text(life)
            case .facts: nil
            default: rules.cache.name
            }
        case .cacheFacts:
            if case .facts(let names) = rules.cache.lifetime {
                names.joined(separator: ", ")
            } else {
                nil
            }
        case .audience: rules.cache.audience == .account ? "account" : "public"
        case .shares:
            if case .everyone(let names) = rules.cache.audience {
                names.sorted().joined(separator: ", ")
            } else {
                nil
            }
        case .payer: rules.payer.rawValue
        default: rules.version
        }
    }
}

extension InputMember {
    fileprivate var fileText: String {
        if case .choice(let texts) = kind { texts.joined(separator: ", ") } else { type }
    }
}
