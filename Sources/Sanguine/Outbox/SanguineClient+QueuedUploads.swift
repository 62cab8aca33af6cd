/// A file that waits in the outbox for its upload; see
/// ``SanguineClient/enqueueUpload(of:fitting:)``.
public struct QueuedUpload: Sendable, Identifiable {
    /// The local id of the file, for the operations and views that name it.
    ///
    /// It begins with `local-file-`. It is replaced by the server's id in all operations when the
    /// file is uploaded, and ``ImageSource/file(_:)`` shows the image under both.
    public let id: String
    /// The receipt of the upload.
    ///
    /// Its outcome is `refused` if the server refuses the file.
    public let receipt: Receipt
}

extension SanguineClient {
    /// Uploads a file later if necessary: at once if there is a network, otherwise when it returns,
    /// even after a restart of the app.
    ///
    /// ```swift
    /// let file = RequestBody.file(url, type: "image/jpeg")
    /// let photo = try await client.enqueueUpload(of: file, fitting: size)
    /// try client.perform(AddPhotoPost(text: text, photo: photo.id))
    /// ```
    ///
    /// The file is copied to the user's folder and flushed to disk, so the app may remove its own.
    /// The local id can be used at once: in mutations, also within a text, and in
    /// ``ImageSource/file(_:)``. Operations that name it are visible at once. They are held, with
    /// later ones of their lane, until the file is uploaded, and are sent with the server's id.
    ///
    /// The upload is an operation of ``outbox``, with its progress. If the server refuses the file,
    /// the operations that name it are refused with the same problem; ``Outbox/retry(_:)`` uploads
    /// it again, and ``Outbox/discard(_:)`` of the last of them removes the file. Without such
    /// operations, the upload itself is in the tray, and an operation that names it later throws
    /// the problem. An upload that operations name cannot be withdrawn or discarded without them,
    /// and is cancelled with the last of them.
    ///
    /// The file belongs to the current user: it is kept and removed with their operations.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file; no form.
    ///   - size: The size at which the file will be shown first, in pixels: the image is in memory
    ///     when this method returns, so that no view flashes. Default: it is decoded when a view
    ///     shows it.
    /// - Returns: The local id, and the receipt of the upload. A caller that is cancelled waits for
    ///   the copy as well.
    /// - Throws: ``SanguineError``, and nothing is left of the file then: `body_too_large` beyond
    ///   ``ClientLimits/stagedBytes``, or ``ClientLimits/stagedBytesInMemory`` in memory,
    ///   `storage_full` if too many files wait, `malformed_body` if the file cannot be read,
    ///   `outboxFull`, `store` if the disk failed, `notConfigured` without a server,
    ///   `invalidDeclaration` for a form. A file that cannot be decoded with `size` is queued
    ///   anyway.
    public func enqueueUpload(
        of file: RequestBody,
        fitting size: ImageSize? = nil
    ) async throws(SanguineError) -> QueuedUpload {
        if let refusal = configuration.refusal { throw refusal }
        let uploads = users.current.uploads
        let queue = configuration.queue(Self.uploadQueue)
        // A cancelled caller waits for the copy too, so that it knows whether the file is queued.
        let result = await withCheckedContinuation { continuation in
            queue.async {
                let result = Result { () throws(SanguineError) in try uploads.add(file) }
                continuation.resume(returning: result)
            }
        }
        let (id, receipt) = try result.get()
        let upload = QueuedUpload(id: id, receipt: receipt)
        if let size { _ = try? await images.image(.file(upload.id), fitting: size) }
        return upload
    }

    /// The server's id of a file that was uploaded from this device.
    ///
    /// - Parameter local: The ``QueuedUpload/id`` of the upload.
    /// - Returns: The id; `nil` if the file is not uploaded yet, was uploaded by another user, or
    ///   before the last ``RecordLimits/replacedIds`` others.
    public func fileID(of local: String) -> String? {
        let user = users.current
        // After a restart, the ids are read with the operations.
        try? user.outbox.open(.upload)
        return user.outbox.storedFile(local)
    }

    private static let uploadQueue = "sanguine.staging"
}
