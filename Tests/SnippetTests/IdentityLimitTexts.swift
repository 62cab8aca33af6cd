@testable import SanguineAuthority

extension LimitTexts {
    /// The limits of accounts: codes, identity tokens, mail, merges, exports and attestations.
    static let identity: [(String, String)] = {
        let settings = AuthoritySettings()
        return [
            ("AuthoritySettings.guestsPerHour", count(settings.guestsPerHour)),
            ("AuthoritySettings.codesPerHour", count(settings.codesPerHour)),
            ("AuthoritySettings.mergedGuestsPerAccount", count(settings.mergedGuestsPerAccount)),
            ("AuthoritySettings.loginsPerAccount", count(settings.loginsPerAccount)),
            ("AuthoritySettings.appName", settings.appName),
            ("AuthoritySettings.passwordCost", "32 MiB"),
            ("AuthoritySettings.emailCodeLife", time(settings.emailCodeLife)),
            ("AuthoritySettings.identityProviders", "none"),
            ("CallLimits.mergedGuests", count(CallLimits.mergedGuests)),
            ("EmailLimits.failuresPerEmail", count(EmailLimits.failuresPerEmail)),
            ("EmailLimits.failuresPerAddress", count(EmailLimits.failuresPerAddress)),
            ("EmailLimits.failureWindow", time(EmailLimits.failureWindow)),
            ("EmailLimits.codesPerAccount", count(EmailLimits.codesPerAccount)),
            ("EmailLimits.codesPerEmail", count(EmailLimits.codesPerEmail)),
            ("EmailLimits.codeWindow", time(EmailLimits.codeWindow)),
            ("GuestLimit.window", time(GuestLimit.window)),
            ("AttestationChallenges.life", time(AttestationChallenges.life)),
            ("CBORItem.bytesLimit", bytes(CBORItem.bytesLimit)),
            ("CBORItem.itemsLimit", count(CBORItem.itemsLimit)),
            ("IdentityTokens.Limits.tokenBytes", bytes(IdentityTokens.Limits.tokenBytes)),
            ("IdentityTokens.Limits.age", time(IdentityTokens.Limits.age)),
            ("IdentityTokens.Limits.leeway", time(IdentityTokens.Limits.leeway)),
            ("MoveCommands.codesPerAccount", count(MoveCommands.codesPerAccount)),
            ("MoveCodeText.length", count(MoveCodeText.length)),
            ("PasswordHasher.limit", count(PasswordHasher.limit)),
            ("AccountExport.pageRows", count(AccountExport.pageRows)),
            ("AccountExport.pageBytes", bytes(AccountExport.pageBytes)),
            ("Authority.mergeTokenLife", time(Authority.mergeTokenLife)),
        ]
    }()
}
