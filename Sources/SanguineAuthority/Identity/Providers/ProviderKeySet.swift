import Foundation
import JWTKit
import SanguineModel

/// A key of a provider, with the only algorithm for which it may be used.
struct ProviderKey: Sendable {
    /// The value of `alg` in a token's header.
    let algorithm: String
    private let verifier: any JWTAlgorithm

    init(algorithm: String, verifier: any JWTAlgorithm) {
        self.algorithm = algorithm
        self.verifier = verifier
    }

    /// Returns whether the key's owner has signed the bytes.
    func hasSigned(_ content: [UInt8], signature: [UInt8]) -> Bool {
        (try? verifier.verify(signature, signs: content)) == true
    }
}

/// The public keys of a provider (RFC 7517).
///
/// Keys that cannot check a signature are ignored (RFC 7517, section 5): those for encryption,
/// symmetric ones, and those of an unknown type, curve or algorithm.
///
/// Several keys may have the same id and algorithm (RFC 7517, section 4.5); a token may be signed
/// with any of them. A key without an id is found only by a token without one.
struct ProviderKeySet: Sendable {
    /// The maximum number of keys of a set; further ones are ignored.
    static let maximumKeys = 100
    /// The maximum number of keys with the same id; further ones are ignored.
    static let maximumNamesakes = 8
    /// The maximum size of an RSA modulus in characters of base64url: 8,192 bits.
    private static let modulusCharacters = 1_366

    private let named: [String: [ProviderKey]]
    private let all: [ProviderKey]

    /// Returns the keys that may have signed a token.
    ///
    /// Without an id, this is the only key with the token's algorithm: if there are several, the
    /// token must name one (OpenID Connect Core 1.0, section 10.1).
    ///
    /// - Parameters:
    ///   - id: The id of the key in the token's header; `nil` for none.
    ///   - algorithm: The algorithm in the token's header.
    /// - Returns: The keys with the id, of any algorithm, or the only one with the algorithm.
    func keys(named id: String?, for algorithm: String?) -> [ProviderKey] {
        if let id { return named[id] ?? [] }
        let candidates = all.filter { $0.algorithm == algorithm }
        return candidates.count == 1 ? candidates : []
    }

    /// Parses a key set; returns `nil` if it has no usable key.
    init?(_ body: [UInt8]) async {
        guard case .array(let elements)? = try? JSONParser.parse(body).value["keys"] else {
            return nil
        }
        var named: [String: [ProviderKey]] = [:]
        var all: [ProviderKey] = []
        var known: Set<String> = []
        for element in elements.prefix(Self.maximumKeys) {
            let id = element["kid"]?.string
            guard element["kid"] == nil || (1...255).contains(id?.utf8.count ?? 0),
                let jwk = Self.key(element, id: id ?? ""), let algorithm = jwk.algorithm,
                let verifier = try? await JWTKeyCollection().add(jwk: jwk)
                    .getKey(for: jwk.keyIdentifier, alg: algorithm.rawValue)
            else { continue }
            let key = ProviderKey(algorithm: algorithm.rawValue, verifier: verifier)
            // Some providers list the same key twice.
            let numbers = ["n", "e", "crv", "x", "y"].map { element[$0]?.string ?? "" }
            let value = ([key.algorithm] + numbers).joined(separator: " ")
            if known.insert(value).inserted { all.append(key) }
            guard let id, named[id, default: []].count < Self.maximumNamesakes,
                known.insert("\(value) \(id)").inserted
            else { continue }
            named[id, default: []].append(key)
        }
        guard !all.isEmpty else { return nil }
        self.named = named
        self.all = all
    }

    /// Returns the public part of a signing key, with its algorithm.
    private static func key(_ element: JSONValue, id: String) -> JWK? {
        guard element["use"] == nil || element["use"] == "sig" else { return nil }
        let name = JWKIdentifier(string: id)
        let declared = element["alg"]?.string
        guard let algorithm = algorithm(of: element), declared ?? algorithm == algorithm,
            let known = JWK.Algorithm(rawValue: algorithm)
        else { return nil }
        switch element["kty"]?.string {
        case "RSA":
            guard let modulus = element["n"]?.string, modulus.utf8.count <= modulusCharacters,
                let exponent = element["e"]?.string, exponent.utf8.count <= 8
            else { return nil }
            return .rsa(known, identifier: name, modulus: modulus, exponent: exponent)
        case "EC":
            return .ecdsa(
                known,
                identifier: name,
                x: element["x"]?.string,
                y: element["y"]?.string,
                curve: element["crv"]?.string.flatMap { ECDSACurve(rawValue: $0) }
            )
        default:
            return .octetKeyPair(
                known,
                identifier: name,
                x: element["x"]?.string,
                y: nil,
                curve: .ed25519
            )
        }
    }

    /// Returns the algorithm of a key: of an RSA key the declared one, otherwise that of its curve.
    ///
    /// An RSA key that declares none has RS256, the default of OpenID Connect Core 1.0, section 2.
    private static func algorithm(of element: JSONValue) -> String? {
        switch (element["kty"]?.string, element["crv"]?.string) {
        case ("RSA", _):
            let name = element["alg"]?.string ?? "RS256"
            let known = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
            return known.contains(name) ? name : nil
        case ("EC", "P-256"): return "ES256"
        case ("EC", "P-384"): return "ES384"
        case ("EC", "P-521"): return "ES512"
        case ("OKP", "Ed25519"): return "EdDSA"
        default: return nil
        }
    }
}
