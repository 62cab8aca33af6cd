import Crypto
import SanguineModel

/// The parts of an identity token, before they are verified.
struct IdentityToken {
    private let header: JSONValue
    private let claims: JSONValue
    /// The signed bytes.
    let content: [UInt8]
    /// The signature.
    let signature: [UInt8]

    /// Parses a JWS in its compact form (RFC 7515, section 7.1) whose parts are JSON objects.
    ///
    /// Returns `nil` for a token with ambiguous parts: with a member twice, or with an encoding
    /// that is not the only one of its bytes.
    init?(_ text: String) {
        guard text.utf8.count <= IdentityTokens.Limits.tokenBytes else { return nil }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]),
            let claims = Self.object(parts[1]), let signature = Base64URL.decode(parts[2])
        else { return nil }
        self.header = header
        self.claims = claims
        self.signature = signature
        content = Array((parts[0] + "." + parts[1]).utf8)
    }

    private static func object(_ part: Substring) -> JSONValue? {
        guard let bytes = Base64URL.decode(part), let value = try? JSONParser.parse(bytes).value,
            case .object = value
        else { return nil }
        return value
    }

    /// The name of the signature's algorithm.
    var algorithm: String? { header["alg"]?.string }

    /// The id of the key; `nil` if the header names none.
    var keyID: String? { header["kid"]?.string }

    /// The person's id at the provider, if it has the permitted form.
    var subject: String? {
        guard let subject = claims["sub"]?.string,
            IdentityTokens.Limits.subjectCharacters.contains(subject.utf8.count),
            subject.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        return subject
    }

    /// The e-mail address, if the provider has verified it, in its canonical form if it has one.
    ///
    /// Apple sends the flag as a string.
    var verifiedEmail: String? {
        guard let email = claims["email"]?.string,
            claims["email_verified"] == true || claims["email_verified"] == "true",
            email.isPlainText(of: IdentityTokens.Limits.emailCharacters),
            email.contains("@"), !email.contains(where: \.isWhitespace)
        else { return nil }
        return EmailAddress(email)?.text ?? email
    }

    /// The time from which the token is no longer accepted.
    var acceptedUntil: Timestamp? {
        guard let expiry = time("exp"), let issued = time("iat") else { return nil }
        let limits = IdentityTokens.Limits.self
        return min(expiry, issued + limits.age) + limits.leeway
    }

    /// The first check of the header that fails.
    var headerFault: IdentityTokenFault? {
        // A critical extension must be understood (RFC 7515, section 4.1.11), and none is known.
        if header["crit"] != nil { return .malformed }
        if let type = header["typ"] {
            let names = ["jwt", "application/jwt"]
            guard let name = type.string?.lowercased(), names.contains(name) else { return .type }
        }
        let algorithm = self.algorithm ?? ""
        if algorithm.lowercased() == "none" || algorithm.hasPrefix("HS") || algorithm.isEmpty {
            return .algorithm
        }
        if let id = header["kid"], !(1...255).contains(id.string?.utf8.count ?? 0) { return .key }
        return nil
    }

    /// The first check of the signature that fails.
    func signatureFault(_ keys: [ProviderKey]) -> IdentityTokenFault? {
        guard !keys.isEmpty else { return .key }
        let candidates = keys.filter { $0.algorithm == algorithm }
        guard !candidates.isEmpty else { return .algorithm }
        let isSigned = candidates.contains { $0.hasSigned(content, signature: signature) }
        return isSigned ? nil : .signature
    }

    /// The first check of the claims that fails.
    func fault(
        _ provider: IdentityProvider,
        nonce: String,
        now: Timestamp
    ) -> IdentityTokenFault? {
        guard let issuer = claims["iss"]?.string, provider.issuers.contains(issuer) else {
            return .issuer
        }
        guard isFor(provider.audiences) else { return .audience }
        let limits = IdentityTokens.Limits.self
        guard let expiry = time("exp"), now < expiry + limits.leeway else { return .expired }
        guard let issued = time("iat"), issued - limits.leeway <= now else { return .issuedLater }
        guard now < issued + limits.age + limits.leeway else { return .tooOld }
        if claims["nbf"] != nil {
            guard let start = time("nbf"), start - limits.leeway <= now else { return .notYetValid }
        }
        guard contains(nonce, as: provider.nonce) else { return .nonce }
        return subject == nil ? .subject : nil
    }

    /// Whether all audiences are among the permitted ones, and there is at least one.
    private func isFor(_ permitted: [String]) -> Bool {
        switch claims["aud"] {
        case .string(let audience): permitted.contains(audience)
        case .array(let audiences):
            !audiences.isEmpty
                && audiences.allSatisfy { $0.string.map(permitted.contains) ?? false }
        default: false
        }
    }

    /// Whether the token contains the nonce, or its SHA-256 as hexadecimal digits or base64.
    private func contains(_ nonce: String, as form: IdentityProvider.NonceForm) -> Bool {
        guard let claim = claims["nonce"]?.string, !claim.isEmpty else { return false }
        if form == .any, claim.utf8.elementsEqual(nonce.utf8) { return true }
        let hash = Array(SHA256.hash(data: Array(nonce.utf8)))
        let digits = Array("0123456789abcdef")
        let hex = String(hash.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 0xF)]] })
        if claim.lowercased().utf8.elementsEqual(hex.utf8) { return true }
        // Base64 for URLs or not, with padding or not.
        var base64 = claim.replacing("+", with: "-").replacing("/", with: "_")
        if base64.hasSuffix("=") { base64.removeLast() }
        return base64.utf8.elementsEqual(Base64URL.encode(hash).utf8)
    }

    /// Returns a claim in seconds since 1970 (RFC 7519, section 2, NumericDate).
    private func time(_ name: String) -> Timestamp? {
        let years: ClosedRange<Int64> = 0...253_402_300_799  // To the end of the year 9999.
        let seconds: Int64
        switch claims[name] {
        case .integer(let whole): seconds = whole
        case .number(let number) where number >= 0 && number < Double(years.upperBound):
            seconds = Int64(number)
        default: return nil
        }
        guard years.contains(seconds) else { return nil }
        return Timestamp(millisecondsSince1970: seconds * 1_000)
    }
}
