import SanguineModel

extension ServerSettings {
    /// Quotas, collections and functions at most, of each.
    public static let listLimit = 1_000

    /// Checks everything.
    ///
    /// - Throws: ``SettingsError`` with all that is wrong.
    public func validate() throws(SettingsError) {
        var problems = Setting.all.compactMap { $0.problem(in: self) }
        if http.effectiveAdminPort > 65_535 {
            problems.append(
                refusal(
                    of: "http.adminPort",
                    value: String(http.effectiveAdminPort),
                    allowed: "a port up to 65535; name one, because the API has the last"
                )
            )
        } else if http.port != 0, http.effectiveAdminPort == http.port {
            problems.append(
                refusal(
                    of: "http.adminPort",
                    value: String(http.port),
                    allowed: "another port than 'http.port'"
                )
            )
        }
        if (http.tlsCertificate == nil) != (http.tlsKey == nil) {
            let missing = http.tlsKey == nil ? "http.tlsKey" : "http.tlsCertificate"
            let allowed = "the path of a file, since TLS needs the certificate and its key"
            problems.append(refusal(of: missing, value: "", allowed: allowed))
        }
        problems += listProblems(quotas.map(\.name), list: "quotas")
        problems += listProblems(functions.map(\.name), list: "functions")
        problems += quotas.flatMap { QuotaSetting.Field.problems(in: $0) }
        problems += RecordCollection.problems(in: collections)
        problems += functions.flatMap { FunctionSetting.Field.problems(in: $0) }
        guard problems.isEmpty else { throw SettingsError(problems) }
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

    /// Whether a quota or function may be called so: what a path takes without escapes.
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

    private func refusal(
        of setting: String,
        value: String,
        allowed: String
    ) -> SettingsError.Problem {
        .invalid(setting: setting, value: value, allowed: allowed, source: "settings")
    }
}
