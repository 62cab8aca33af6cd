import SanguineModel

/// The part of a profile that its owner may change, and the rules for it.
enum ProfilePatch {
    /// Returns the profile with the merge patch (RFC 7396) applied.
    ///
    /// Unknown members are ignored, as in every request.
    ///
    /// - Throws: `invalid_content` for a member of the account that its owner may not change, or
    ///   for an invalid value.
    static func apply(_ patch: JSONValue, to account: Account) throws(Problem) -> Account {
        for (name, advice) in fixed where patch[name] != nil {
            throw Problem(.invalidContent, "Leave '\(name)' out: \(advice)")
        }
        var account = account
        if let value = patch["timeZone"] {
            account.timeZone = try timeZone(value.string)
        }
        if let value = patch["language"] {
            account.language = try language(value.string)
        }
        if let value = patch["displayName"] {
            account.displayName = try value == .null ? nil : displayName(value.string)
        }
        if let value = patch["settings"] {
            account.settings = try settings(account.settings, merging: value)
        }
        return account
    }

    /// The members of an account that a patch cannot change, and how they change instead.
    private static let fixed = [
        ("id", "it never changes."),
        ("kind", "register the guest with 'POST /v1/accounts/upgrade' or '/v1/accounts/identity'."),
        ("email", "change the address with 'POST /v1/account/email'."),
        ("plan", "purchases ('POST /v1/purchases') and administrators set it."),
        ("createdAt", "it never changes."),
    ]

    static func timeZone(_ name: String?) throws(Problem) -> String {
        guard let name, ZoneName.isKnown(name) else {
            throw Problem(
                .invalidContent,
                "Set 'timeZone' to an IANA name, such as 'Europe/Istanbul' or 'UTC'."
            )
        }
        return name
    }

    /// Checks that the tag has the form of BCP 47, and at most 35 characters.
    static func language(_ tag: String?) throws(Problem) -> String {
        guard let tag, tag.utf8.count <= 35,
            tag.wholeMatch(of: #/[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*/#) != nil
        else {
            throw Problem(
                .invalidContent,
                "Set 'language' to a BCP 47 tag, such as 'tr' or 'en-GB'."
            )
        }
        return tag
    }

    private static func displayName(_ name: String?) throws(Problem) -> String {
        let range = WireLimits.displayNameCharacters
        guard let name, name.isPlainText(of: range) else {
            throw Problem(
                .invalidContent,
                """
                Set 'displayName' to \(range.lowerBound) to \(range.upperBound) printable \
                characters.
                """
            )
        }
        return name
    }

    private static func settings(
        _ old: JSONValue,
        merging patch: JSONValue
    ) throws(Problem) -> JSONValue {
        let settings: JSONValue
        do throws(Refusal) {
            settings = try old.merging(patch)
        } catch {
            throw error.problem
        }
        guard case .object = settings,
            ResponseEncoder.encode(settings).count <= WireLimits.settingsBytes
        else {
            throw Problem(
                .invalidContent,
                "Set 'settings' to an object of at most \(WireLimits.settingsBytes) bytes as JSON."
            )
        }
        return settings
    }
}
