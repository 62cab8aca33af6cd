import Crypto
import Foundation
import SanguineModel

/// Signs and verifies URLs of files that are valid for a limited time, without storing them.
///
/// The signature is an HMAC-SHA256 over the file's id and the time at which the URL expires. Its
/// key is derived from the server's secret and the day of that time: each day has its own key,
/// which is useless after that day.
///
/// The URL of a file stays the same for a ``step``, so that a client that requests it again can use
/// the response in its HTTP cache.
struct BlobLinks: Sendable {
    /// The minimum time for which a URL is valid: an hour.
    static let life = Duration.seconds(3_600)
    /// The time for which the URL of a file stays the same: 15 minutes.
    static let step = Duration.seconds(900)
    /// The maximum number of digits of a time in seconds; a longer text is not parsed.
    private static let digits = 12
    private static let secondsPerDay: Int64 = 86_400

    private let secret: SymmetricKey

    init(keys: SigningKeys) { secret = keys.refreshKey }

    /// Returns the signed URL of a file.
    func link(to id: BlobID, at now: Timestamp) -> BlobLink {
        let step = Self.step.components.seconds
        let steps = now.millisecondsSince1970 / 1_000 / step + 1
        let end = steps * step + Self.life.components.seconds
        let signature = Base64URL.encode(
            HMAC<SHA256>.authenticationCode(for: Self.content(id, end), using: key(end))
        )
        return BlobLink(
            url: "\(Self.path(id))?expires=\(end)&signature=\(signature)",
            expiresAt: Timestamp(millisecondsSince1970: end * 1_000)
        )
    }

    /// Returns the path of a file for requests without a token.
    static func path(_ id: BlobID) -> String { "/v1/public/blobs/\(id)" }

    /// Returns the number of seconds for which a signed URL is still valid; `nil` if the signature
    /// is wrong or the time is over.
    func rest(
        of id: BlobID,
        expires: String,
        signature: String,
        at now: Timestamp
    ) -> Int64? {
        guard expires.utf8.count <= Self.digits, let end = Int64(expires), "\(end)" == expires,
            let code = Base64URL.decode(signature.prefix(64)),
            HMAC<SHA256>.isValidAuthenticationCode(
                code,
                authenticating: Self.content(id, end),
                using: key(end)
            )
        else { return nil }
        let rest = end - now.millisecondsSince1970 / 1_000
        return rest > 0 ? rest : nil
    }

    private static func content(_ id: BlobID, _ end: Int64) -> Data { Data("\(id) \(end)".utf8) }

    private func key(_ end: Int64) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: secret,
            info: Data("links of files \(end / Self.secondsPerDay)".utf8),
            outputByteCount: 32
        )
    }
}

extension Authority {
    /// Returns the URL of a file that the account may read.
    ///
    /// - Throws: see ``readableBlob(_:by:)``.
    func blobLink(
        _ id: BlobID,
        for account: Identifier
    ) async throws(Problem) -> BlobLink {
        _ = try await readableBlob(id, by: account)
        do throws(Problem) {
            _ = try await publicBlob(id)
            return BlobLink(url: BlobLinks.path(id))
        } catch {
            guard error.code == .notFound else { throw error }
            return BlobLinks(keys: keys).link(to: id, at: clock.now())
        }
    }

    /// Finds a file that is requested without a token.
    ///
    /// A signed URL is valid until it expires, even if the record that named the file is deleted
    /// earlier, but not after all owners have deleted the file.
    ///
    /// - Parameters:
    ///   - id: The file.
    ///   - expires: The query parameter of a signed URL; `nil` for a public file.
    ///   - signature: The query parameter of a signed URL; `nil` for a public file.
    /// - Returns: The row, and the value of `Cache-Control`.
    /// - Throws: `not_found` also for a signature that is wrong or expired.
    func linkedBlob(
        _ id: BlobID,
        expires: String?,
        signature: String?
    ) async throws(Problem) -> (BlobRow, caching: String) {
        guard expires != nil || signature != nil else {
            return (try await publicBlob(id), BlobCaching.everyone)
        }
        let rest = BlobLinks(keys: keys).rest(
            of: id,
            expires: expires ?? "",
            signature: signature ?? "",
            at: clock.now()
        )
        guard let rest else {
            throw Problem(.notFound, "Request a new link to the file: this one is not valid.")
        }
        return (try await anyBlob(id), BlobCaching.signed(for: rest))
    }
}
