import Foundation
import Logging
import NIOHTTP2
import NIOSSL
import Synchronization

/// The server's certificate chain and private key, from two PEM files.
///
/// ``reload()`` reads the files again. Existing connections keep their certificate. New connections
/// get the new one, or the previous one if the files are unusable.
///
/// Mutable state: `current`, guarded by its mutex because connections and reloads use any thread.
final class TLSIdentity: Sendable {
    private let certificate: String
    private let key: String
    private let current: Mutex<NIOSSLContext>

    /// Reads the files.
    ///
    /// - Parameters:
    ///   - certificate: The path of the certificate and its issuers' certificates, in PEM.
    ///   - key: The path of its private key, in PEM, which only the owner may read.
    /// - Throws: ``TLSFileError`` if a file cannot be read or used.
    init(certificate: String, key: String) throws(TLSFileError) {
        self.certificate = certificate
        self.key = key
        current = Mutex(try Self.read(certificate, key))
    }

    /// The context for new connections.
    var context: NIOSSLContext { current.withLock { $0 } }

    /// Reads the files again.
    ///
    /// - Throws: ``TLSFileError``; the previous certificate stays in use.
    func reload() throws(TLSFileError) {
        let context = try Self.read(certificate, key)
        current.withLock { $0 = context }
    }

    private static func read(
        _ certificate: String,
        _ key: String
    ) throws(TLSFileError) -> NIOSSLContext {
        let secret: Data?
        do throws(OwnerFileError) {
            secret = try OwnerFile(URL(filePath: key)).read()
        } catch {
            throw .key(error)
        }
        guard let secret else { throw .missing(path: key) }
        guard let chain = try? Data(contentsOf: URL(filePath: certificate)) else {
            throw .missing(path: certificate)
        }
        do {
            let certificates = try NIOSSLCertificate.fromPEMBytes(Array(chain))
            guard !certificates.isEmpty else { throw TLSFileError.missing(path: certificate) }
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: certificates.map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(secret), format: .pem))
            )
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = NIOHTTP2SupportedALPNProtocols
            // This also fails if the key does not match the certificate.
            return try NIOSSLContext(configuration: configuration)
        } catch let error as TLSFileError {
            throw error
        } catch {
            throw .unusable(certificate: certificate, key: key)
        }
    }
}

/// An error that occurs when the server's certificate and key are loaded.
public enum TLSFileError: Error, Hashable {
    /// The file does not exist, cannot be read, or contains no certificate.
    case missing(path: String)
    /// The file of the key cannot be read, or others may read it.
    case key(OwnerFileError)
    /// The files are not a PEM certificate and its key.
    case unusable(certificate: String, key: String)
}

extension TLSFileError: CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        switch self {
        case .missing(let path):
            "'\(path)' is empty or cannot be read. Check 'http.tlsCertificate' and 'http.tlsKey'."
        case .key(let error): "\(error)"
        case .unusable(let certificate, let key):
            """
            '\(certificate)' and '\(key)' are not a certificate and its private key in PEM. Check \
            'http.tlsCertificate' and 'http.tlsKey'.
            """
        }
    }
}
