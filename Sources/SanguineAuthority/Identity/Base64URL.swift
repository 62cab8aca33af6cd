import Foundation

/// Base64 for URLs, without padding (RFC 4648, section 5).
package enum Base64URL {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString()
            .replacing("+", with: "-")
            .replacing("/", with: "_")
            .replacing("=", with: "")
    }

    /// Returns the bytes, or `nil` if the string is not an output of ``encode(_:)``.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        // The input may be any string; later steps work on characters, which can have any length.
        guard text.utf8.allSatisfy(isDigit) else { return nil }
        var padded = String(text).replacing("-", with: "+").replacing("_", with: "/")
        padded += String(repeating: "=", count: (4 - padded.utf8.count % 4) % 4)
        guard let bytes = Data(base64Encoded: padded).map(Array.init),
            encode(bytes) == text  // One string for each value: no unused bits at the end.
        else { return nil }
        return bytes
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
