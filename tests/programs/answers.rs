use rocketmq_sync::{ConsumeStatus, PushConsumer, Result};
use std::time::Duration;

fn main() -> Result<()> {
    let consumer = PushConsumer::builder("mailer")
        .name_servers("10.0.0.1:9876;10.0.0.2:9876")
        .subscribe("mails", "*")
        .consume_batch_size(32)
        .max_reconsume_times(5)
        .consume_concurrently(|batch| {
            for message in batch.iter().take_while(|_| !batch.is_cancelled()) {
                // revoked or late: leave the rest alone
                batch.answer(
                    message,
                    match mail(message) {
                        Ok(()) => ConsumeStatus::Success,
                        Err(e) if e.is_greylisted() => ConsumeStatus::ReconsumeAfter(Duration::from_secs(30)),
                        Err(e) if e.is_temporary() => ConsumeStatus::ReconsumeLater,
                        Err(_) => ConsumeStatus::DeadLetter,
                    },
                );
            }
            ConsumeStatus::ReconsumeLater // for the messages without an answer
        })
        .start()?;
    consumer.events().for_each(|event| eprintln!("{event}")); // ends when the consumer is shut down
    Ok(())
}
// stubs
fn mail(_: &rocketmq_sync::MessageView) -> std::result::Result<(), MailError> {
    Ok(())
}
struct MailError;
impl MailError {
    fn is_greylisted(&self) -> bool {
        false
    }
    fn is_temporary(&self) -> bool {
        true
    }
}
