import Foundation
import Logging
import SanguineModel

extension Setting {
    /// All settings with a key, in the order of the documentation.
    public static let all: [Setting] =
        http + admin + limits + accounts + spending + tokens + mail + operations + appStore
        + attestation + deviceCheck + BlobSetting.settings + upstream + video + openAI + events
        + log

    private static let http = [
        Setting(
            "http.host",
            .text(\.http.host, characters: 1...255),
            flag: "--host",
            "The address that the API listens on; 0.0.0.0 for all interfaces."
        ),
        Setting(
            "http.port",
            .integer(\.http.port, 0...65_535),
            flag: "--port",
            "The port of the API; 0 picks a free one."
        ),
        Setting(
            "http.adminHost",
            .text(\.http.adminHost, characters: 1...255),
            flag: "--admin-host",
            "The address for metrics and administration; metrics need no token."
        ),
        Setting(
            "http.adminPort",
            .optionalInteger(\.http.adminPort, 0...65_535),
            flag: "--admin-port",
            "The port for metrics and administration. Default: the API's port + 1."
        ),
        Setting(
            "http.corsOrigins",
            .texts(\.http.corsOrigins),
            allowed: "origins such as https://app.example.com, or *",
            isValid: isOrigin,
            "The origins whose pages may call the API."
        ),
        Setting(
            "http.adminHosts",
            .texts(\.http.adminHosts),
            allowed: "names and addresses without a port, such as metrics.internal",
            isValid: AdminHosts.isName,
            "The host names by which the admin port may be called, in addition to loopback."
        ),
        Setting(
            "http.trustedProxies",
            .texts(\.http.trustedProxies),
            allowed: "addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32",
            isValid: { AddressRange($0) != nil },
            "The proxies whose `Forwarded` or `X-Forwarded-For` header is trusted."
        ),
        Setting(
            "http.tlsCertificate",
            .optionalText(\.http.tlsCertificate),
            allowed: "the path of a file, together with 'http.tlsKey'",
            "The certificate chain of the API's port in PEM; SIGHUP reloads it."
        ),
        Setting(
            "http.tlsKey",
            .optionalText(\.http.tlsKey),
            allowed: "the path of a file, together with 'http.tlsCertificate'",
            "The certificate's private key in PEM, in a file that only its owner may read."
        ),
    ]

    private static let admin = [
        Setting(
            "admin.tokens",
            .texts(\.admin.tokens),
            allowed: "names with a role: read, support or owner, such as anna:support",
            isValid: { AdminTokenSetting($0) != nil },
            "Further admin tokens; that of anna is in the file admin-token.anna."
        )
    ]

    private static let limits = [
        Setting(
            "limits.bodyBytes",
            .integer(\.limits.bodyBytes, 1_024...WireLimits.bodyBytes * 16),
            "The maximum size of a request's body, in bytes."
        ),
        Setting(
            "limits.requestsPerMinute",
            .integer(\.limits.requestsPerMinute, 1...60_000_000),
            "The requests of an account per minute; more get 429."
        ),
        Setting(
            "limits.addressRequestsPerMinute",
            .integer(\.limits.addressRequestsPerMinute, 1...60_000_000),
            "The requests of an address per minute, if no account is known; more get 429."
        ),
        Setting(
            "limits.addressProcessorTime",
            .duration(\.limits.addressProcessorTime, .milliseconds(10) ... .seconds(600)),
            "The processor time of an address per 10 s, for requests without a valid token."
        ),
        Setting(
            "limits.guestsPerHour",
            .integer(\.limits.guestsPerHour, 0...1_000_000),
            "The new guests of an address per hour; more get 429. 0 means any."
        ),
        Setting(
            "limits.codesPerHour",
            .integer(\.limits.codesPerHour, 1...1_000_000),
            "The codes by e-mail that an address can request per hour; more get 429."
        ),
        Setting(
            "limits.connections",
            .integer(\.limits.connections, 1...1_000_000),
            "The maximum number of connections; more wait. One address may have half of them."
        ),
        Setting(
            "limits.requestTimeout",
            .duration(\.limits.requestTimeout, .milliseconds(100) ... .seconds(3_600)),
            "The time within which a request's body must arrive."
        ),
        Setting(
            "limits.idleTimeout",
            .duration(\.limits.idleTimeout, .seconds(1) ... .seconds(86_400)),
            "The time after which a connection without a request is closed."
        ),
        Setting(
            "limits.writeTimeout",
            .duration(\.limits.writeTimeout, .seconds(1) ... .seconds(600)),
            "The time after which a connection that reads nothing of its response is closed."
        ),
        Setting(
            "limits.answerBytes",
            .integer(\.limits.answerBytes, (1 << 20)...(1 << 36)),
            "The maximum size of all unread responses, in bytes; beyond it, requests get 503."
        ),
        Setting(
            "limits.receivedBytes",
            .integer(\.limits.receivedBytes, (1 << 20)...(1 << 36)),
            "The maximum size of unanswered request bodies, in bytes; beyond it, requests get 503."
        ),
        Setting(
            "limits.blobBytes",
            .integer(\.limits.blobBytes, 1_024...(1 << 28)),
            "The maximum size of an uploaded file, in bytes; a larger one gets 413."
        ),
        Setting(
            "limits.accountBytes",
            .integer(\.limits.accountBytes, 0...(1 << 40)),
            """
            The maximum size of an account's records and files, in bytes, plus 100 for each of \
            them and for each of the up to 10,000 known deletions; a change or upload beyond it \
            gets 422.
            """
        ),
        Setting(
            "limits.unnamedFileDays",
            .integer(\.limits.unnamedFileDays, 0...3_650),
            "The days after which a file that no record of its owner names is removed; 0 for never."
        ),
        Setting(
            "limits.uploadHours",
            .integer(\.limits.uploadHours, 1...720),
            "The hours for which a resumable upload is kept after its last byte."
        ),
        Setting(
            "limits.functionCalls",
            .integer(\.limits.functionCalls, 1...100_000),
            "The maximum number of concurrent runs of functions; more calls wait for their turn."
        ),
        Setting(
            "limits.queuedCalls",
            .integer(\.limits.queuedCalls, 0...1_000_000),
            "The maximum number of calls that wait for their turn or share a run; more get 503."
        ),
        Setting(
            "limits.queueTime",
            .duration(\.limits.queueTime, .milliseconds(1) ... .seconds(3_600)),
            "How long a call waits for its turn; then it is withdrawn and gets 503."
        ),
        Setting(
            "limits.resultMemoryBytes",
            .integer(\.limits.resultMemoryBytes, 0...(1 << 36)),
            "The memory for cached answers of functions, in bytes."
        ),
        Setting(
            "limits.liveConnections",
            .integer(\.limits.liveConnections, 0...1_000_000),
            "The maximum number of live connections; more get 503."
        ),
        Setting(
            "limits.liveConnectionsPerAccount",
            .integer(\.limits.liveConnectionsPerAccount, 0...1_000_000),
            "The maximum number of live connections of an account; more get 429."
        ),
        Setting(
            "limits.livePing",
            .duration(\.limits.livePing, .seconds(1) ... .seconds(40)),
            "The time without an event after which a live connection gets a comment."
        ),
        Setting(
            "limits.freeBytes",
            .integer(\.limits.freeBytes, 0...(1 << 50)),
            "The free bytes on the disk of the data below which the log warns; 0 means never."
        ),
        Setting(
            "limits.shutdownGrace",
            .duration(\.limits.shutdownGrace, .zero ... .seconds(3_600)),
            "The time that requests in progress have to finish when the server stops."
        ),
    ]

    private static let accounts = [
        Setting(
            "accounts.unit",
            .text(\.accounts.unit, characters: 1...32),
            "The unit of balances."
        ),
        Setting(
            "accounts.grant",
            .integer(\.accounts.grant, 0...Int(WireLimits.amount)),
            "The initial balance of a new account."
        ),
        Setting(
            "accounts.defaultTimeZone",
            .text(\.accounts.defaultTimeZone, characters: 1...64),
            allowed: "an IANA time zone such as Europe/Berlin",
            isValid: ZoneName.isKnown,
            "The time zone of accounts that set none; an account's day begins at its midnight."
        ),
        Setting(
            "accounts.defaultLanguage",
            .text(\.accounts.defaultLanguage, characters: 2...35),
            allowed: "a BCP 47 language such as en or de-AT",
            isValid: isLanguage,
            "The language of accounts that set none."
        ),
        Setting(
            "accounts.logins",
            .integer(\.accounts.logins, 1...1_000),
            "The maximum number of logins of an account; another one gets 422."
        ),
        Setting(
            "accounts.guestProof",
            .choice(\.accounts.guestProof, of: ["optional", "required"]),
            "Whether a guest's registration and merge repeat its newest refresh token."
        ),
    ]

    private static let spending = [
        Setting(
            "spending.perDay",
            .optionalInteger(\.spending.perDay, 1...Int(WireLimits.amount)),
            "The amount that an account may spend per day of its calendar. Default: any."
        )
    ]

    private static let tokens = [
        Setting(
            "tokens.accessLifetime",
            .duration(\.tokens.accessLifetime, .seconds(10) ... .seconds(86_400)),
            "How long an access token is valid."
        ),
        Setting(
            "tokens.refreshLifetime",
            .duration(\.tokens.refreshLifetime, .seconds(60) ... .seconds(10 * 366 * 86_400)),
            "How long a refresh token is valid; after a longer absence the user signs in again."
        ),
        Setting(
            "tokens.rotationGrace",
            .duration(\.tokens.rotationGrace, .zero ... .seconds(3_600)),
            "How long a rotated refresh token still gets its successor, if the response was lost."
        ),
        Setting(
            "tokens.issuer",
            .text(\.tokens.issuer, characters: 1...200),
            "The issuer (`iss`) of access tokens."
        ),
        Setting(
            "tokens.audience",
            .text(\.tokens.audience, characters: 1...200),
            "The audience (`aud`) of access tokens."
        ),
    ]

    private static let operations = [
        Setting(
            "idempotency.keep",
            .duration(\.idempotencyKeep, .seconds(60) ... .seconds(366 * 86_400)),
            "How long the response to an operation is kept and replayed."
        ),
        Setting(
            "holds.duration",
            .duration(\.holdsDuration, .seconds(1) ... .seconds(86_400)),
            "How long a hold lasts if the request sets no time."
        ),
    ]

    private static let appStore = [
        Setting(
            "appStore.bundleId",
            .optionalText(\.appStore.bundleId),
            allowed: "1 to 155 letters, digits, . and -",
            isValid: isBundle,
            "The bundle identifier of the app whose purchases are accepted."
        ),
        Setting(
            "appStore.environment",
            .choice(\.appStore.environment, of: ["production", "sandbox"]),
            "The only accepted environment of the App Store."
        ),
        Setting(
            "appStore.appAppleId",
            .optionalInteger(\.appStore.appAppleId, 1...Int(Int64.max)),
            "The app's Apple ID, which production needs together with 'appStore.bundleId'."
        ),
        Setting(
            "appStore.roots",
            .texts(\.appStore.roots),
            allowed: "paths of files, such as AppleRootCA-G3.cer",
            "The trusted root certificates, in DER or PEM."
        ),
        Setting(
            "appStore.familySharing",
            .choice(\.appStore.familySharing, of: ["refuse", "count"]),
            "Whether purchases that a family member shares are refused or count."
        ),
    ]

    private static let deviceCheck = [
        Setting(
            "deviceCheck.keyId",
            .optionalText(\.deviceCheck.keyId),
            allowed: "10 letters and digits",
            isValid: isAppleID,
            "The identifier of the key for Apple's DeviceCheck."
        ),
        Setting(
            "deviceCheck.teamId",
            .optionalText(\.deviceCheck.teamId),
            allowed: "10 letters and digits",
            isValid: isAppleID,
            "The identifier of the team that the key is of."
        ),
        Setting(
            "deviceCheck.keyFile",
            .optionalText(\.deviceCheck.keyFile),
            allowed: "the path of a file, such as AuthKey_ABC1234567.p8",
            "The private key, as Apple's developer account has it."
        ),
        Setting(
            "deviceCheck.environment",
            .choice(\.deviceCheck.environment, of: ["production", "development"]),
            "The environment of DeviceCheck; development for apps that Xcode installs."
        ),
        Setting(
            "deviceCheck.bits",
            .choice(\.deviceCheck.bits, of: ["grant", "none"]),
            "The use of Apple's bits of a device: for the grant, or none, which validates tokens."
        ),
    ]

    private static func isAppleID(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy { byte in
                (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            }
    }

    private static let attestation = [
        Setting(
            "attestation.guests",
            .choice(\.attestation.guests, of: ["none", "optional", "required"]),
            "Whether new guests must be attested by App Attest or DeviceCheck."
        ),
        Setting(
            "attestation.assertions",
            .choice(\.attestation.assertions, of: ["none", "required"]),
            "Whether attested devices must send an assertion to sign in and to refresh."
        ),
        Setting(
            "attestation.appId",
            .optionalText(\.attestation.appId),
            allowed: "the team's identifier and the bundle identifier, as TEAM123456.com.example",
            isValid: isApp,
            "The app that App Attest attests."
        ),
        Setting(
            "attestation.environment",
            .choice(\.attestation.environment, of: ["production", "development"]),
            "The only accepted environment of App Attest."
        ),
        Setting(
            "attestation.roots",
            .texts(\.attestation.roots),
            allowed: "paths of files, such as Apple_App_Attestation_Root_CA.pem",
            "The trusted root certificates of App Attest, in DER or PEM."
        ),
    ]

    private static let upstream = [
        Setting(
            "upstream.url",
            .optionalText(\.upstream.url),
            flag: "--upstream",
            allowed: "an http or https URL with a host, without user name and password",
            isValid: { UpstreamConfiguration.endpoint(of: $0) != nil },
            "The server for functions of kind upstream; its API must be compatible with OpenAI's."
        ),
        Setting(
            "upstream.key",
            .secret(\.upstream.key),
            allowed: "visible ASCII characters, without spaces",
            isValid: { $0.utf8.allSatisfy { (0x21...0x7E).contains($0) } },
            "The API key of the upstream."
        ),
        Setting(
            "upstream.model",
            .text(\.upstream.model, characters: 1...200),
            "The name of the model."
        ),
        Setting(
            "upstream.connectTimeout",
            .duration(\.upstream.connectTimeout, .milliseconds(10) ... .seconds(600)),
            "The maximum time for connecting to the upstream."
        ),
        Setting(
            "upstream.timeout",
            .duration(\.upstream.timeout, .milliseconds(10) ... .seconds(3_600)),
            "The maximum time for an answer in one piece, and for a pause within a stream."
        ),
        Setting(
            "upstream.streamTimeout",
            .duration(\.upstream.streamTimeout, .milliseconds(10) ... .seconds(7_200)),
            "The maximum time for a whole streamed answer."
        ),
        Setting(
            "upstream.answerBytes",
            .integer(\.upstream.answerBytes, 1_024...(1 << 28)),
            "The maximum size of an upstream's answer, in bytes."
        ),
        Setting(
            "upstream.video",
            .choice(\.upstream.video, of: UpstreamConfiguration.Video.allCases.map(\.rawValue)),
            "How a video is sent to the upstream: as the file, or as frames of it."
        ),
        Setting(
            "upstream.outputLimit",
            .choice(
                \.upstream.outputLimit,
                of: UpstreamConfiguration.OutputLimit.allCases.map(\.rawValue)
            ),
            "The member of requests that limits the length of an answer; none sends no limit."
        ),
        Setting(
            "upstream.streamOptions",
            .choice(
                \.upstream.streamOptions,
                of: UpstreamConfiguration.StreamOptions.allCases.map(\.rawValue)
            ),
            "Whether the upstream accepts stream_options, and then reports the usage of streams."
        ),
        Setting(
            "upstream.fallbacks",
            .texts(\.upstream.fallbacks),
            allowed: "names of 'upstreams'",
            "The upstreams to try, in this order, while the one of 'upstream.url' fails."
        ),
    ]

    private static let video = [
        Setting(
            "video.ffmpeg",
            .text(\.video.ffmpeg, characters: 1...1_024),
            "FFmpeg, which extracts frames of videos: a path, or a name to search for."
        ),
        Setting(
            "video.frames",
            .integer(\.video.frames, 1...32),
            "The number of frames of a video that are sent to an upstream that takes only images."
        ),
    ]

    private static let openAI = [
        Setting(
            "openai.function",
            .text(\.openAI.function, characters: 0...64),
            allowed: "the name of a function of kind upstream, or nothing",
            "The function whose price and limits apply to /v1/chat/completions."
        )
    ]

    private static let log = [
        Setting(
            "log.level",
            .choice(\.log.level, of: Logger.Level.allCases.map(\.rawValue)),
            flag: "--log-level",
            "The lowest level that is logged."
        ),
        Setting(
            "log.access",
            .flag(\.log.access),
            "Whether every request gets a line in the log."
        ),
    ]

    private static func isApp(_ text: String) -> Bool {
        let parts = text.split(separator: ".", maxSplits: 1).map(String.init)
        return parts.count == 2 && parts[0].utf8.count == 10 && parts.allSatisfy(isBundle)
    }

    private static func isBundle(_ text: String) -> Bool {
        (1...155).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                UInt8(ascii: ".") == byte || UInt8(ascii: "-") == byte
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                    || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte & 0xDF)
            }
    }

    private static func isOrigin(_ text: String) -> Bool {
        if text == "*" { return true }
        guard let parts = URLComponents(string: text), parts.host?.isEmpty == false,
            parts.scheme == "http" || parts.scheme == "https"
        else { return false }
        return parts.path.isEmpty && parts.query == nil && parts.fragment == nil
            && parts.user == nil
    }

    private static func isLanguage(_ text: String) -> Bool {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        return (2...8).contains(parts[0].count) && parts[0].allSatisfy { $0.isASCII && $0.isLetter }
            && parts.dropFirst().allSatisfy { part in
                (1...8).contains(part.count)
                    && part.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
            }
    }
}
