import SanguineModel

extension ServerSettings {
    /// The maximum number of quotas, of collections and of functions.
    public static let listLimit = 1_000

    /// Validates all settings.
    ///
    /// - Throws: ``SettingsError`` with all problems.
    public func validate() throws(SettingsError) { try validate(with: [], isComplete: false) }

    /// Validates all settings, and the functions registered in code.
    ///
    /// - Parameters:
    ///   - functions: The functions registered in code.
    ///   - isComplete: Whether there are no others, which settings may name. Default: yes.
    /// - Throws: ``SettingsError`` with all problems.
    func validate(
        with functions: [ServerFunction],
        isComplete: Bool = true
    ) throws(SettingsError) {
        var problems = self.problems
        problems += TitleFunctions(self.functions, functions).faults(isComplete: isComplete)
            .map { .unusable(reason: $0) }
        let names = self.functions.map(\.name) + functions.map(\.name)
        problems += functions.flatMap(\.faults).map { .unusable(reason: $0) }
        let quotas = Set(self.quotas.map(\.name))
        for function in functions {
            if names.count(where: { $0 == function.name }) > 1 {
                problems.append(
                    .unusable(reason: "Register the function '\(function.name)' once.")
                )
            }
            for name in function.asks?.upstreams ?? [] where !hasUpstream(name) {
                let reason = "Add the upstream '\(name)' of '\(function.name)' to the settings."
                problems.append(.unusable(reason: reason))
            }
            if let quota = function.rules.price.quota?.name, !quotas.contains(quota) {
                let reason = "Add the quota '\(quota)' of '\(function.name)' to the settings."
                problems.append(.unusable(reason: reason))
            }
        }
        guard problems.isEmpty else { throw SettingsError(problems) }
    }

    private var problems: [SettingsError.Problem] {
        var problems = Setting.all.compactMap { $0.problem(in: self) }
        if http.effectiveAdminPort > 65_535 {
            problems.append(
                refusal(
                    of: "http.adminPort",
                    value: String(http.effectiveAdminPort),
                    allowed: "a port up to 65535; set one, because the API uses the last"
                )
            )
        } else if http.port != 0, http.effectiveAdminPort == http.port {
            problems.append(
                refusal(
                    of: "http.adminPort",
                    value: String(http.port),
                    allowed: "a port other than 'http.port'"
                )
            )
        }
        if (http.tlsCertificate == nil) != (http.tlsKey == nil) {
            let missing = http.tlsKey == nil ? "http.tlsKey" : "http.tlsCertificate"
            let allowed = "the path of a file, because TLS needs the certificate and its key"
            problems.append(refusal(of: missing, value: "", allowed: allowed))
        }
        if mail.smtpHost != nil, mail.from == nil {
            let allowed = "an address such as no-reply@example.org, because SMTP needs a sender"
            problems.append(refusal(of: "mail.from", value: "", allowed: allowed))
        }
        problems += appStore.problems(limit: Self.listLimit)
        problems += attestation.problems(hasDeviceCheck: deviceCheck.keyId != nil)
        problems += deviceCheck.problems + blobs.problems
        problems += problemsOfEvents
        problems += listProblems(quotas.map(\.name), list: "quotas")
        problems += listProblems(functions.map(\.name), list: "functions")
        problems += quotas.flatMap { QuotaSetting.Field.problems(in: $0) }
        problems += RecordCollection.problems(in: collections)
        problems += functions.flatMap(\.problems)
        problems += functions.flatMap { problemsOfNames(in: $0) }
        problems += problemsOfUpstreams
        problems += listProblems(identity.map(\.name), list: "identity")
        problems += identity.flatMap(\.problems) + AdminTokenSetting.problems(in: admin.tokens)
        // The default function may be missing in a file, which disables the OpenAI endpoints.
        let door = functions.first { $0.name == openAI.function }
        let others = ["", OpenAI().function]
        if door.map({ $0.kind != .upstream }) ?? !others.contains(openAI.function) {
            let allowed = "the name of a function of kind upstream, or nothing"
            problems.append(
                refusal(of: "openai.function", value: openAI.function, allowed: allowed)
            )
        }
        return problems
    }

    private var problemsOfEvents: [SettingsError.Problem] {
        guard let webhook = events.webhook else { return [] }
        var problems: [SettingsError.Problem] = []
        if events.file != nil {
            let allowed = "nothing, because 'events.file' is set"
            problems.append(refusal(of: "events.webhook", value: webhook, allowed: allowed))
        }
        if events.webhookSecret == nil {
            let allowed = "a secret, because 'events.webhook' is set"
            problems.append(refusal(of: "events.webhookSecret", value: "", allowed: allowed))
        }
        return problems
    }

    /// Returns the problems of names that do not exist.
    private func problemsOfNames(in function: FunctionSetting) -> [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        func refuse(_ field: FunctionSetting.Field, _ value: String) {
            problems.append(
                FunctionSetting.refusal(
                    of: function.name,
                    field.rawValue,
                    value: value,
                    allowed: field.allowed
                )
            )
        }
        if let quota = function.price.quota?.name, !quotas.contains(where: { $0.name == quota }) {
            refuse(.quota, quota)
        }
        for name in function.upstreams where !hasUpstream(name) { refuse(.upstreams, name) }
        return problems
    }

    private func hasUpstream(_ name: String) -> Bool {
        name == Upstream.name || upstreams.contains { $0.name == name }
    }

    private var problemsOfUpstreams: [SettingsError.Problem] {
        var problems = listProblems(upstreams.map(\.name), list: "upstreams")
        for upstream in upstreams {
            for (field, value) in upstream.faults {
                problems.append(
                    refusal(
                        of: "upstreams.\(upstream.name).\(field.rawValue)",
                        value: value,
                        allowed: field.allowed
                    )
                )
            }
            if upstream.name == Upstream.name {
                let allowed = "a name other than 'default', which stands for 'upstream.url'"
                problems.append(refusal(of: "upstreams", value: upstream.name, allowed: allowed))
            }
        }
        for name in upstream.fallbacks where !upstreams.contains(where: { $0.name == name }) {
            let allowed = "names of 'upstreams'"
            problems.append(refusal(of: "upstream.fallbacks", value: name, allowed: allowed))
        }
        return problems
    }

    private func listProblems(_ names: [String], list: String) -> [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        if names.count > Self.listLimit {
            let allowed = "at most \(Self.listLimit)"
            problems.append(refusal(of: list, value: String(names.count), allowed: allowed))
        }
        var seen: Set<String> = []
        for name in names {
            if !Self.isListName(name) {
                let allowed = "names of 1 to 64 letters, digits, - and _"
                problems.append(refusal(of: list, value: name, allowed: allowed))
            } else if !seen.insert(name).inserted {
                problems.append(refusal(of: list, value: name, allowed: "each name once"))
            }
        }
        return problems
    }

    /// Returns whether a quota or function may have the name: one that a path need not escape.
    static func isListName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// Returns the functions' rules that are valid and probably not meant, each with what to do.
    ///
    /// The server logs them when it starts.
    ///
    /// - Parameter functions: The functions registered in code. Default: none.
    /// - Returns: A sentence or two for each function.
    package func warnings(with functions: [ServerFunction] = []) -> [String] {
        let all = self.functions.map { ($0.name, $0.rules) } + functions.map { ($0.name, $0.rules) }
        return all.compactMap { name, rules in
            guard rules.cache.lifetime == .session, rules.missesCacheInThreads else { return nil }
            return """
                The function '\(name)' has the cache 'session' and keeps history: in a thread, no \
                repeated question is answered from the cache, because the messages before it \
                differ. Set its 'history.messages' to 0, or remove its cache.
                """
        }
    }

    private func refusal(
        of setting: String,
        value: String,
        allowed: String
    ) -> SettingsError.Problem {
        .invalid(setting: setting, value: value, allowed: allowed, source: "settings")
    }
}
