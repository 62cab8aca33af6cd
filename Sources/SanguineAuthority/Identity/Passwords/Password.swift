import Foundation
import SanguineModel

/// The form of passwords.
enum Password {
    /// The permitted number of characters in a new password.
    static let characters = 8...256
    /// The maximum size of a password in bytes.
    static let largestBytes = 2_048

    /// Returns the bytes that are hashed for a new password.
    ///
    /// - Throws: `invalid_content` unless the length is permitted.
    static func new(_ text: String) throws(Problem) -> [UInt8] {
        let bytes = try bytes(of: text)
        guard characters.contains(text.count) else { throw .passwordLength }
        return bytes
    }

    /// Returns the bytes that are hashed: those of the text in Unicode's normalization form C.
    ///
    /// Keyboards differ in the form of letters with accents.
    ///
    /// A text with a NUL is no password: scrypt pads short keys with zeros, so that such a text
    /// could have the hash of a shorter one.
    ///
    /// - Throws: `invalid_content` for a text that no password can have, so that the length of a
    ///   hashed text is limited.
    static func bytes(of text: String) throws(Problem) -> [UInt8] {
        guard text.utf8.count <= largestBytes else { throw .passwordLength }
        guard !text.utf8.contains(0) else { throw .passwordNUL }
        return Array(text.precomposedStringWithCanonicalMapping.utf8)
    }
}

extension Problem {
    fileprivate static var passwordNUL: Problem {
        Problem(.invalidContent, "Remove the NUL characters (U+0000) from 'password'.")
    }

    fileprivate static var passwordLength: Problem {
        Problem(
            .invalidContent,
            """
            Set 'password' to \(Password.characters.lowerBound) to \
            \(Password.characters.upperBound) characters, at most \(Password.largestBytes) bytes.
            """
        )
    }
}
