import Foundation
import SanguineModel

/// The rules of a response for keeping an image: the part of HTTP's caching (RFC 9111) that matters
/// for a private cache.
///
/// - `no-store`: the image is kept in memory only, and loaded again at each use.
/// - `no-cache`, or `max-age=0`: it is kept, and checked at each use.
/// - `immutable`, and every file of the Sanguine server: it is never checked.
/// - `max-age`, or else `Expires`: the image is fresh for this time, minus its `Age`.
/// - Otherwise it is fresh for ``ImageLimits/freshness``.
///
/// A stale image is shown while it is checked with its `ETag` or `Last-Modified`.
struct ImageFreshness: Hashable, Sendable {
    /// Whether the image may be written to disk.
    var isStorable = true
    /// The time at which it becomes stale; `nil` if it never does.
    var expiry: Timestamp?
    /// The validators for a conditional request.
    var tag: String?
    var modified: String?

    /// The rules for content that never changes.
    static let immutable = ImageFreshness()

    init() {}

    init(_ response: TransportResponse, at now: Timestamp) {
        tag = response.header("etag")
        modified = response.header("last-modified")
        let directives = Self.directives(response.header("cache-control") ?? "")
        isStorable = directives["no-store"] == nil
        guard directives["immutable"] == nil else { return }
        if directives["no-cache"] != nil || directives["no-store"] != nil {
            expiry = now
            return
        }
        var seconds = directives["max-age"].flatMap { Int64($0) }
        if seconds == nil, let text = response.header("expires") {
            // An invalid date, such as 0, is in the past (RFC 9111, section 5.3).
            seconds = Self.date(text).map { max(0, ($0 - now).components.seconds) } ?? 0
        }
        let age = max(0, response.header("age").flatMap { Int64($0) } ?? 0)
        let longest = ImageLimits.longestFreshness.components.seconds
        let whole = seconds ?? ImageLimits.freshness.components.seconds
        expiry = now + .seconds(min(max(0, whole - age), longest))
    }

    /// The header fields that ask whether the image has changed.
    var conditions: [String: String] {
        var fields: [String: String] = [:]
        if let tag { fields["If-None-Match"] = tag }
        if let modified { fields["If-Modified-Since"] = modified }
        return fields
    }

    private static func directives(_ field: String) -> [String: String] {
        field.split(separator: ",").prefix(32).reduce(into: [:]) { directives, part in
            let pair = part.split(separator: "=", maxSplits: 1)
            let name = pair.first?.trimmingCharacters(in: .whitespaces).lowercased() ?? ""
            let value =
                pair.count > 1 ? pair[1].trimmingCharacters(in: .init(charactersIn: " \"")) : ""
            directives[name] = value
        }
    }

    /// Reads a date of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    private static func date(_ text: String) -> Timestamp? {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = .gmt
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return format.date(from: text).map {
            Timestamp(millisecondsSince1970: Int64($0.timeIntervalSince1970 * 1_000))
        }
    }
}
