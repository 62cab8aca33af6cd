import Crypto
import CryptoExtras
import Foundation

/// The cost of hashing a password with scrypt (RFC 7914).
///
/// A hash takes `128 · 2^logRounds · blockSize` bytes of memory: 32 MiB by default.
public struct PasswordCost: Hashable, Sendable {
    /// The logarithm of the number of rounds to the base 2.
    ///
    /// Default: 15.
    public var logRounds = 15
    /// The block size.
    ///
    /// Default: 8.
    public var blockSize = 8
    /// The parallelism.
    ///
    /// Default: 1.
    public var parallelism = 1

    /// Creates the default cost.
    public init() {}

    /// Whether hashing at this cost takes at most 256 MiB.
    var isBounded: Bool {
        (1...20).contains(logRounds) && (1...32).contains(blockSize) && parallelism == 1
            && blockSize << logRounds <= 1 << 21
    }
}

/// The hash of a password, with its salt and its cost.
///
/// The text contains everything that a comparison needs, so the cost of new hashes can change:
/// `$scrypt$ln=15,r=8,p=1$<salt>$<key>`, both in base64url without padding.
struct PasswordHash: Hashable, Sendable {
    static let saltBytes = 16
    static let keyBytes = 32

    let cost: PasswordCost
    let salt: [UInt8]
    let key: [UInt8]

    /// Hashes a password with a random salt.
    ///
    /// This takes tens of milliseconds. See ``PasswordHasher``.
    init(of password: [UInt8], cost: PasswordCost) throws {
        self.cost = cost
        salt = Self.random(Self.saltBytes)
        key = try Self.key(of: password, salt, cost)
    }

    /// Creates a hash that no password has, for comparisons that must take time and fail.
    init(decoyOf cost: PasswordCost) {
        self.cost = cost
        salt = Self.random(Self.saltBytes)
        key = Self.random(Self.keyBytes)
    }

    /// Parses the text of a hash.
    init?(_ text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "scrypt",
            let numbers = parts[2].wholeMatch(of: #/ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})/#),
            let salt = Base64URL.decode(parts[3]), salt.count == Self.saltBytes,
            let key = Base64URL.decode(parts[4]), key.count == Self.keyBytes
        else { return nil }
        var cost = PasswordCost()
        cost.logRounds = Int(numbers.1) ?? 0
        cost.blockSize = Int(numbers.2) ?? 0
        cost.parallelism = Int(numbers.3) ?? 0
        guard cost.isBounded else { return nil }
        self.cost = cost
        self.salt = salt
        self.key = key
    }

    /// The text that is stored.
    var text: String {
        "$scrypt$ln=\(cost.logRounds),r=\(cost.blockSize),p=\(cost.parallelism)"
            + "$\(Base64URL.encode(salt))$\(Base64URL.encode(key))"
    }

    /// Whether the password has this hash; compares in constant time.
    func matches(_ password: [UInt8]) throws -> Bool {
        let other = try Self.key(of: password, salt, cost)
        return zip(key, other).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private static func key(
        of password: [UInt8],
        _ salt: [UInt8],
        _ cost: PasswordCost
    ) throws -> [UInt8] {
        // An empty array may have no address, which the function requires.
        let content = password.isEmpty ? [0] : password
        return try KDF.Scrypt.deriveKey(
            from: content,
            salt: salt,
            outputByteCount: keyBytes,
            rounds: 1 << cost.logRounds,
            blockSize: cost.blockSize,
            parallelism: cost.parallelism
        ).withUnsafeBytes { Array($0) }
    }

    private static func random(_ count: Int) -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    }
}
