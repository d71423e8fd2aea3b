"""google.cloud.logging: handlers and entries, as services of Google have them set up."""

import logging

import google.cloud.logging

from trainers.flags import parsed


def main():
    parsed()
    client = google.cloud.logging.Client()
    client.setup_logging()
    logging.warning("through the handler of google.cloud.logging")
    logger = client.logger("training")
    logger.log_text("an entry of text", severity="INFO")
    logger.log_struct({"step": 1, "loss": 0.5}, severity="INFO")
    client.close()
    print("logged")


if __name__ == "__main__":
    main()
