import SanguineModel

extension QuotaSetting {
    /// How a quota is written: `quotas.<name>`, the times a day.
    enum Field {
        static let perDay = 0...1_000_000_000
        static let allowed = "a whole number from 0 to 1000000000"

        static func problems(in quota: QuotaSetting) -> [SettingsError.Problem] {
            if perDay.contains(quota.perDay) { return [] }
            return [
                .invalid(
                    setting: "quotas.\(quota.name)",
                    value: String(quota.perDay),
                    allowed: allowed,
                    source: "settings"
                )
            ]
        }
    }

    /// Reads a quota as the file gives it, or returns `nil` if the text is no number.
    public init?(name: String, text: String) {
        guard let perDay = Int(text) else { return nil }
        self.init(name: name, perDay: perDay)
    }

    /// What ``init(name:text:)`` allows, in words.
    public static var allowed: String { Field.allowed }
}

extension FunctionSetting {
    /// The members of a function in the file: `functions.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// `echo` or `upstream`; must be given.
        case kind
        /// The price of every call, in the balance's unit; or the rest of the prices.
        case price
        /// The price of a million input tokens of the upstream.
        case perMillionInput
        /// The price of a million output tokens of the upstream.
        case perMillionOutput
        /// The least that a call by usage costs. Default: 1.
        case atLeast
        /// The longest answer, in the upstream's tokens. Default: 512.
        case maxOutputTokens
        /// What the model is told before the question. Default: nothing.
        case systemPrompt

        static let amounts = 0...WireLimits.amount
        static let outputTokens = 1...1_000_000
        static let systemPromptCharacters = 32_768

        /// What the member may be, in words.
        public var allowed: String {
            switch self {
            case .kind: FunctionSetting.Kind.allCases.map(\.rawValue).joined(separator: ", ")
            case .price:
                "a whole number from 0 to \(WireLimits.amount); or leave it out, and give "
                    + "perMillionInput and perMillionOutput, for a function of kind upstream"
            case .perMillionInput, .perMillionOutput, .atLeast:
                "a whole number from 0 to \(WireLimits.amount), beside no 'price', for a function "
                    + "of kind upstream"
            case .maxOutputTokens: "a whole number from 1 to 1000000"
            case .systemPrompt: "at most \(Self.systemPromptCharacters) characters"
            }
        }

        static func problems(in function: FunctionSetting) -> [SettingsError.Problem] {
            func problem(_ field: Field, _ value: String) -> SettingsError.Problem {
                refusal(of: function.name, field, value: value, source: "settings")
            }
            var problems: [SettingsError.Problem] = []
            let price = function.price
            if !amounts.contains(price.amount) {
                let field: Field = price.kind == .fixed ? .price : .atLeast
                problems.append(problem(field, String(price.amount)))
            }
            if price.kind == .usage {
                let rates = [
                    (Field.perMillionInput, price.perMillionInput),
                    (Field.perMillionOutput, price.perMillionOutput),
                ]
                for (field, rate) in rates where rate.map(amounts.contains) != true {
                    problems.append(problem(field, rate.map { String($0) } ?? ""))
                }
                if function.kind == .echo { problems.append(problem(.price, "usage")) }
            }
            if !outputTokens.contains(function.maxOutputTokens) {
                problems.append(problem(.maxOutputTokens, String(function.maxOutputTokens)))
            }
            if function.systemPrompt?.count ?? 0 > systemPromptCharacters {
                problems.append(problem(.systemPrompt, "…"))
            }
            return problems
        }

        static func refusal(
            of function: String,
            _ field: Field,
            value: String,
            source: String
        ) -> SettingsError.Problem {
            .invalid(
                setting: "functions.\(function).\(field.rawValue)",
                value: value,
                allowed: field.allowed,
                source: source
            )
        }
    }

    /// Reads a function as the file gives it.
    ///
    /// - Throws: ``SettingsError`` for members that are missing, no numbers, or do not go together.
    public init(
        name: String,
        members: [Field: String],
        source: String
    ) throws(SettingsError) {
        var problems: [SettingsError.Problem] = []
        func refuse(_ field: Field) {
            problems.append(
                Field.refusal(of: name, field, value: members[field] ?? "", source: source)
            )
        }
        func number(_ field: Field) -> Int64? {
            guard let text = members[field] else { return nil }
            guard let number = Int64(text), Field.amounts.contains(number) else {
                refuse(field)
                return nil
            }
            return number
        }
        let kind = members[.kind].flatMap(Kind.init)
        if kind == nil { refuse(.kind) }
        let amount = number(.price)
        let input = number(.perMillionInput)
        let output = number(.perMillionOutput)
        let least = number(.atLeast)
        let tokens = number(.maxOutputTokens)
        let usageFields = [Field.perMillionInput, .perMillionOutput, .atLeast]
        var price = Price.fixed(amount ?? 0)
        if members[.price] != nil {
            for field in usageFields where members[field] != nil { refuse(field) }
        } else if let input, let output {
            price = .usage(
                perMillionInput: input,
                perMillionOutput: output,
                atLeast: least ?? 1
            )
        } else if problems.isEmpty {
            refuse(.price)
        }
        guard problems.isEmpty, let kind else { throw SettingsError(problems) }
        self.init(
            name: name,
            kind: kind,
            price: price,
            maxOutputTokens: tokens.map { Int($0) } ?? 512,
            systemPrompt: members[.systemPrompt]
        )
        problems = Field.problems(in: self)
        guard problems.isEmpty else { throw SettingsError(problems) }
    }
}

extension FunctionSetting {
    /// The members as the file would give them, in the order of ``Field``.
    public var texts: [(field: Field, text: String)] {
        Field.allCases.compactMap { field in text(of: field).map { (field, $0) } }
    }

    private func text(of field: Field) -> String? {
        switch field {
        case .kind: kind.rawValue
        case .price: price.kind == .fixed ? String(price.amount) : nil
        case .perMillionInput: price.perMillionInput.map { String($0) }
        case .perMillionOutput: price.perMillionOutput.map { String($0) }
        case .atLeast: price.kind == .usage ? String(price.amount) : nil
        case .maxOutputTokens: String(maxOutputTokens)
        case .systemPrompt: systemPrompt
        }
    }
}
