import Crypto
import Foundation
import SanguineModel

/// The checksum of a request's bytes, as `Upload-Checksum` names it (tus 1.0, checksum).
struct UploadChecksum {
    /// The supported algorithms, in the order of `Tus-Checksum-Algorithm`.
    static let algorithms = ["sha1", "sha256"]

    private let expected: [UInt8]
    private var hash: any HashFunction

    /// Reads the value of the header.
    ///
    /// - Throws: `malformed_request` for an algorithm that is not supported, and for a checksum
    ///   that is not one of the algorithm.
    init(_ header: String) throws(Problem) {
        let parts = header.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        let count: Int
        switch parts.first {
        case "sha1": (hash, count) = (Insecure.SHA1(), Insecure.SHA1.byteCount)
        case "sha256": (hash, count) = (SHA256(), SHA256.byteCount)
        default: throw Self.malformed
        }
        guard parts.count == 2, let bytes = Data(base64Encoded: String(parts[1])),
            bytes.count == count
        else { throw Self.malformed }
        expected = Array(bytes)
    }

    /// Adds received bytes.
    mutating func add(_ bytes: [UInt8]) { hash.update(data: bytes) }

    /// Whether the bytes so far have the checksum.
    var isRight: Bool { Self.digest(hash) == expected }

    private static func digest(_ hash: some HashFunction) -> [UInt8] { Array(hash.finalize()) }

    private static var malformed: Problem {
        Problem(
            .malformedRequest,
            """
            Set 'Upload-Checksum' to one of \(algorithms.joined(separator: ", ")), a space, and \
            the checksum in Base64.
            """
        )
    }
}
