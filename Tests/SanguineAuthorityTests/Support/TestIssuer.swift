import Crypto
import Foundation
import JWTKit
import SanguineModel

@testable import SanguineAuthority

/// An OpenID provider with generated keys that signs any claims.
struct TestIssuer {
    /// An algorithm for which the provider has a key.
    enum Kind: String, CaseIterable, Sendable {
        case rsa = "RS256"
        case ec = "ES256"

        /// The id of the key.
        var keyID: String { "key-\(rawValue)" }
    }

    static let issuer = "https://id.example.com"
    static let keysURL = "https://id.example.com/keys"
    static let nonce = "a-nonce-of-this-sign-in"
    static let audience = "com.example.app"

    let ec = P256.Signing.PrivateKey()

    /// The provider in the settings of an authority.
    static func provider(
        _ change: (inout IdentityProvider) -> Void = { _ in }
    ) -> IdentityProvider {
        var provider = IdentityProvider(
            name: "example",
            issuers: [issuer],
            audiences: [audience, "com.example.web"],
            keys: keysURL
        )
        change(&provider)
        return provider
    }

    /// The claims of a valid token that is issued now.
    static func claims(at now: Timestamp = ManualClock.start) -> [String: JSONValue] {
        let seconds = now.millisecondsSince1970 / 1_000
        return [
            "iss": .string(issuer), "aud": .string(audience), "sub": "ada-1",
            "iat": .integer(seconds), "exp": .integer(seconds + 600), "nonce": .string(nonce),
        ]
    }

    /// Creates a token; a claim or header member that is `null` is left out.
    func token(
        _ kind: Kind = .ec,
        claims: [String: JSONValue] = [:],
        header: [String: JSONValue] = [:],
        at now: Timestamp = ManualClock.start,
        sign: (@Sendable ([UInt8]) throws -> [UInt8])? = nil
    ) async throws -> String {
        let names: [String: JSONValue] = [
            "alg": .string(kind.rawValue), "kid": .string(kind.keyID), "typ": "JWT",
        ]
        let parts = [
            names.merging(header) { $1 }, Self.claims(at: now).merging(claims) { $1 },
        ]
        let content = parts.map { Base64URL.encode(Self.encode($0)) }.joined(separator: ".")
        let bytes = Array(content.utf8)
        let made = if let sign { try sign(bytes) } else { try await signature(kind, bytes) }
        return content + "." + Base64URL.encode(made)
    }

    /// Signs bytes with the key of the kind.
    func signature(_ kind: Kind, _ content: [UInt8]) async throws -> [UInt8] {
        switch kind {
        case .ec: try Array(ec.signature(for: content).rawRepresentation)
        case .rsa:
            try await JWTKeyCollection()
                .add(rsa: Self.rsa(), digestAlgorithm: .sha256, kid: "a")
                .getKey(for: "a").sign(content)
        }
    }

    /// The JWK of the kind's public key.
    func key(_ kind: Kind, id: String? = nil) throws -> [String: JSONValue] {
        var key: [String: JSONValue] = [
            "kid": .string(id ?? kind.keyID), "use": "sig", "alg": .string(kind.rawValue),
        ]
        switch kind {
        case .ec:
            let point = Array(ec.publicKey.rawRepresentation)
            key["kty"] = "EC"
            key["crv"] = "P-256"
            key["x"] = .string(Base64URL.encode(point[..<32]))
            key["y"] = .string(Base64URL.encode(point[32...]))
        case .rsa:
            let numbers = try Self.rsa().publicKey.getKeyPrimitives()
            key["kty"] = "RSA"
            key["n"] = .string(Base64URL.encode(numbers.modulus))
            key["e"] = .string(Base64URL.encode(numbers.publicExponent))
        }
        return key
    }

    /// The body of the provider's key server.
    func keySet(_ others: [[String: JSONValue]] = []) throws -> [UInt8] {
        let own = try Kind.allCases.map { try key($0) }
        return Self.encode(["keys": .array((own + others).map { .object($0) })])
    }

    static func encode(_ members: [String: JSONValue]) -> [UInt8] {
        ResponseEncoder.encode(JSONValue.object(members.filter { $0.value != .null }))
    }

    /// A key that protects nothing.
    static func rsa() throws -> JWTKit.Insecure.RSA.PrivateKey {
        let kind = "PRIVATE KEY"
        return try JWTKit.Insecure.RSA.PrivateKey(
            pem: "-----BEGIN \(kind)-----\n\(rsaKey)\n-----END \(kind)-----\n"
        )
    }

    /// The bytes that a verifier could take for a symmetric key.
    static func publicKeyForms() throws -> [[UInt8]] {
        let key = try rsa().publicKey
        return [Array(key.pemRepresentation.utf8), Array(key.derRepresentation)]
    }

    private static let rsaKey = """
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCagvhmlxT6/fL6
        pcGDan7ZCtiZyYeGmROZNcsvZ8VogA6QROtmqBXNX1p08JXC0GVZo6Et6gGXELvq
        NusSd/Fg3S8ITk6Dker70qssm3rf6g8dQQXvU7fVd/aLWXSsCywuALjOTKNVu80h
        6m1eN12GVbc9l6GvOKQ+lxz8gNc0wd4g6YaZTUslS/mzqW/mNO83gq+A3MwTIKV4
        yRff4BGR9qrarMVaaeHtLTCTOb/jq/83YIwPXZdlWst/TDKVoyEhD9PZ8wuz3KYX
        OFRnFixTxHPZ36qAUvN71l+JQz6XFDVO9j+yjjLYFDd3Vec5SfYHDQmAupndLckm
        9e0zUiN7AgMBAAECgf9FUP51+r3fnywp858q/th81GDRKBom25tKWOkT0HWyWog/
        aRyi6Ih/8MlRgYdgCemh9mtc9Vii5lQddRCck5IEOVjgNaTpcuxPIpvCWkONLBjL
        d8QTd0/0hbo3+XBMsXVdNp7qRNKISKKF5w2aZp/2lwh/T3XVysMUB36IsyGb/eJv
        0MDaGaXKR9S/FoxbaKfJicCMIcGHaWhjgr1DDJGHOF3FuIr1KiOQYQBjLZ1gBieB
        M6WJT+kWCRhXwiR0KwXjgn5ykO1gy+pAOhk6botgtMvJW51kha6k9ag4c8XPAqwJ
        TaOiWp8LcD6nWpsFo5fJnYoUZOxelvIAEUX6qEECgYEA2dwBzkkwElfvZiJzNJba
        1F+Cf47Qn3KHiFK0CEt1LWinPw99F6QKwyxtwnuUFtWyBtGGtvtHNeZm8rPSMTrR
        kUiSWH1dHv/XaEy+brl+Jeq8Czz0GU85Q6HP+PJnW5dcBYuxbd98nqs5kiBE8gNb
        MbEE61btTKGaZY8pBFAJOFcCgYEAtY/ZqFFPQ1Ko5/I5KfV0aPPA6WhoXMKRDns7
        bMMOjmXG0MwgFzGosJ+hm4i9J6uR/WCjDbDHcZwDPDh/WK77Oo/lz0D8RHpg9gQK
        Czy7l4igDLDAeMZnw2QBC0AZGynf6wLyMwWO+B9YwQQ9TQFm0oj8i808okYum2br
        /2Bqx30CgYEAwkVPEu3uwRzLLW+g/g9b2i/FRgxLezP9KhJd2lu3hSOiqDgem5s7
        wal3wwrCFs6+rxfeooNWj/kCaoDx+dZylLR7VA+On5sTMj3lPwWIOTWmM/tJzNv5
        u5aqx1sZ0fIaLBPSx6CYF0Gm1+iQsqNNifVJ5raga0pcTR4pPGBGqIcCgYEAgOk2
        HXA92wshqi4tsED6+lm3qwHat6Hd5G5S7xI/j5Nr6mxEjLNRlraAxDH+O+Bxs3md
        y+asdVnUYjmrEYiMEDSDcvgtJWHO3l5X00q31wvGt7v3rMkSe4TRyO8l5EeDGRXq
        aZeUv09icQlVjQtlui5RQeHjH0S9atFU1unaZvECgYEAqHNhaU9/51iq/dhnoTvb
        UJ8PWRnMSMFIXg4sCE1x95q89agT5YeTCUsaHkffnH76mhIYnEDbeYYlvVvEYErQ
        jpGzaFjGuuH83Z1KBK0G2Oko6Y+bqUHilwD9jZ7yrJgIQMqZIFYgWgfp4H08ffPe
        FnD4XyErm3NIsqtAiGgyeJs=
        """
}
