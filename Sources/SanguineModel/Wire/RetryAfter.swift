import Foundation

/// The `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter {
    /// Returns the number of whole seconds to wait, at least zero, or `nil` for an invalid header.
    package static func seconds(_ header: String, now: Timestamp) -> Int? {
        let text = header.trimmingCharacters(in: .whitespaces)
        if let seconds = Int(text) { return max(0, seconds) }
        return HTTPDate.moment(text).map { max(0, ($0 - now).secondsRoundedUp) }
    }
}
